package servers

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// dialect is what MariaDB and MySQL call the same parts of replication.
type dialect struct {
	args   []string // of a server that has a replica, or is one
	empty  string   // a server that has nothing, and has logged nothing
	follow string   // a host and a port
	status string
	read   string // what status says when all that was received is applied
	pause  string // receive nothing more, and apply what is there
	end    string // be no replica any more
	source string // every commit of a primary waits until a replica has it
	sync   string // the replica says that it has it
	synced string // of a primary: how many replicas say so
}

func replication() *dialect {
	if MySQLD() != "" {
		return &dialect{
			args: []string{"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--plugin-load-add=semisync_source.so", "--plugin-load-add=semisync_replica.so",
				"--rpl-semi-sync-source-timeout=60000"},
			empty:  "DROP DATABASE test; RESET BINARY LOGS AND GTIDS",
			follow: "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '%s', SOURCE_PORT = %s, SOURCE_USER = 'root', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1; START REPLICA",
			status: "SHOW REPLICA STATUS", read: "Replica has read all relay log",
			pause: "STOP REPLICA IO_THREAD", end: "STOP REPLICA; RESET REPLICA ALL",
			source: "SET GLOBAL rpl_semi_sync_source_enabled = ON", sync: "SET GLOBAL rpl_semi_sync_replica_enabled = ON; STOP REPLICA IO_THREAD; START REPLICA IO_THREAD",
			synced: "SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'",
		}
	}
	return &dialect{
		args:   []string{"--log-bin=binlog", "--gtid-strict-mode=ON", "--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-timeout=60000"},
		empty:  "DROP DATABASE test; RESET MASTER; SET GLOBAL gtid_slave_pos = ''",
		follow: "CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos; START SLAVE",
		status: "SHOW SLAVE STATUS", read: "Slave has read all relay log",
		pause: "STOP SLAVE IO_THREAD", end: "STOP SLAVE; RESET SLAVE ALL",
		source: "SET GLOBAL rpl_semi_sync_master_enabled = ON", sync: "SET GLOBAL rpl_semi_sync_slave_enabled = ON; STOP SLAVE IO_THREAD; START SLAVE IO_THREAD",
		synced: "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'",
	}
}

// MariaDBPrimary starts, for a test, a server that others can follow. Its users are only
// root, who may connect from this machine without a password.
func MariaDBPrimary(t TB) *MariaDBServer {
	t.Helper()
	return MariaDB(t, &MariaDBOptions{Args: append(replication().args, "--server-id=1")})
}

// Replica starts, for a test, a server that follows this one by way of an address, has
// all that this one logged, and only reads.
func (s *MariaDBServer) Replica(t TB, by string) *MariaDBServer {
	t.Helper()
	d := replication()
	r := MariaDB(t, &MariaDBOptions{Args: append(d.args, "--server-id=2", "--read-only=ON")})
	host, port, _ := net.SplitHostPort(by)
	if _, err := r.Query(d.empty + "; " + fmt.Sprintf(d.follow, host, port)); err != nil {
		t.Fatalf("replica: %v", err)
	}
	return r
}

// SemiSync has each commit of this server wait, for up to a minute, until a replica has
// received it.
func (s *MariaDBServer) SemiSync(replica *MariaDBServer) error {
	d := replication()
	if _, err := replica.Query(d.sync); err != nil {
		return err
	}
	if _, err := s.Query(d.source); err != nil {
		return err
	}
	return until(startBound, func() error {
		out, err := s.Query(d.synced)
		if err == nil && !strings.HasSuffix(out, "\t1") {
			err = errors.New("no replica says what it received: " + out)
		}
		return err
	})
}

// Promote makes a replica a server of its own that can be written to, once it has
// applied what it received.
func (s *MariaDBServer) Promote() error {
	d := replication()
	if _, err := s.Query(d.pause); err != nil {
		return err
	}
	err := until(startBound, func() error {
		out, err := s.Query(d.status)
		if err == nil && !strings.Contains(out, d.read) {
			err = errors.New("the replica has not applied all that it received: " + out)
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = s.Query(d.end + "; SET GLOBAL read_only = OFF")
	return err
}
