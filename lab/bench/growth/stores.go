package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"leasehold/lab/servers"
)

// store is one engine on a server of its own.
type store struct {
	name  string
	start func() (*running, error)
}

type running struct {
	url   string
	bytes func() (int64, error)     // what the store takes
	keep  func() (*snapshot, error) // nil: no database
	close func() error

	pid  int // of the server, 0: none
	addr string
}

func stores() []store {
	return []store{
		{"filelock", directory},
		{"queuelock", func() (*running, error) { return redis("redis://%s") }},
		{"redissonlock", func() (*running, error) { return redis("redisson://%s") }},
		{"zklock", zookeeper},
		{"etcdlock", etcd},
		{"pglock", postgres},
		{"mysqllock", mariadb},
	}
}

func directory() (*running, error) {
	dir, err := os.MkdirTemp("", "lh-growth")
	if err != nil {
		return nil, err
	}
	return &running{
		url:   "dir://" + filepath.Join(dir, "locks"),
		bytes: func() (int64, error) { return size(dir) },
		close: func() error { return os.RemoveAll(dir) },
	}, nil
}

// size is that of all files of a folder.
func size(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

func redis(form string) (*running, error) {
	s, err := servers.StartRedis(nil)
	if err != nil {
		return nil, err
	}
	return &running{
		url: fmt.Sprintf(form, s.Addr),
		bytes: func() (int64, error) {
			v, err := s.Info("used_memory_dataset")
			if err != nil {
				return 0, err
			}
			return strconv.ParseInt(v, 10, 64)
		},
		close: s.Close, pid: s.PID(), addr: s.Addr,
	}, nil
}

func zookeeper() (*running, error) {
	s, err := servers.StartZooKeeper(&servers.ZooKeeperOptions{Tick: time.Second})
	if err != nil {
		return nil, err
	}
	return &running{
		url: "zookeeper://" + s.Addr,
		bytes: func() (int64, error) {
			// It neither answers nor closes the connection while it deletes the containers of
			// names, which are many here.
			n, err := s.Monitored("zk_approximate_data_size")
			for end := time.Now().Add(3 * time.Minute); err != nil && time.Now().Before(end); {
				time.Sleep(time.Second)
				n, err = s.Monitored("zk_approximate_data_size")
			}
			return int64(n), err
		},
		close: s.Close, pid: s.PID(), addr: s.Addr,
	}, nil
}

func etcd() (*running, error) {
	s, err := servers.StartEtcd(nil)
	if err != nil {
		return nil, err
	}
	return &running{
		url: "etcd://" + s.Addr,
		bytes: func() (int64, error) {
			n, err := s.Metric("etcd_mvcc_db_total_size_in_use_in_bytes", func(string) bool { return true })
			return int64(n), err
		},
		close: s.Close, pid: s.PID(), addr: s.Addr,
	}, nil
}

func postgres() (*running, error) {
	s, err := servers.StartPostgres(&servers.PostgresOptions{Args: []string{"-c", "max_connections=400"}})
	if err != nil {
		return nil, err
	}
	url := s.URL("", "")
	return &running{
		url: url,
		bytes: func() (int64, error) {
			v, err := s.Query("SELECT pg_database_size('postgres')")
			if err != nil {
				return 0, err
			}
			return strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		},
		keep:  func() (*snapshot, error) { return keepPostgres(url) },
		close: s.Close, pid: s.PID(), addr: s.Addr,
	}, nil
}

func mariadb() (*running, error) {
	s, err := servers.StartMariaDB(&servers.MariaDBOptions{Args: []string{"--max-connections=400"}})
	if err != nil {
		return nil, err
	}
	url := s.URL("", "")
	return &running{
		url: url,
		bytes: func() (int64, error) {
			v, err := s.Query("SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = 'test'")
			if err != nil {
				return 0, err
			}
			return strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		},
		keep:  func() (*snapshot, error) { return keepMariaDB(s.Addr) },
		close: s.Close, pid: s.PID(), addr: s.Addr,
	}, nil
}
