package servers

import (
	"os"
	"path/filepath"
)

// MySQLD is the path of a server program of MySQL's, mysqld, that LEASEHOLD_MYSQLD in
// the environment names: whoever asks for a MariaDB is then given a MySQL, so that the
// same tests say what that does. Debian has no mysqld for most of its releases, so none
// is asked for otherwise. Empty: MariaDB runs.
func MySQLD() string { return os.Getenv("LEASEHOLD_MYSQLD") }

// redoLog is the size of MariaDB's log. One that is made larger would be written to its end,
// and be made anew at the server's start.
const redoLog = "--innodb-log-file-size=32M"

// installing makes the tables of the server's own, with root, who has no password.
func (s *MariaDBServer) installing() (program string, args []string) {
	if MySQLD() != "" {
		return MySQLD(), []string{"--no-defaults", "--initialize-insecure", "--datadir=" + s.data()}
	}
	return "mariadb-install-db", []string{"--no-defaults", "--datadir=" + s.data(), "--auth-root-authentication-method=normal", "--skip-test-db", redoLog}
}

// serving runs the server on a port of loopback.
func (s *MariaDBServer) serving(port string) (program string, args []string) {
	args = []string{
		"--no-defaults", "--datadir=" + s.data(), "--port=" + port, "--socket=" + s.socket(),
		"--pid-file=" + filepath.Join(s.Dir, "pid"), "--bind-address=127.0.0.1",
	}
	if MySQLD() != "" {
		return MySQLD(), append(args, "--mysqlx=OFF", "--secure-file-priv=NULL", "--innodb-redo-log-capacity=32M")
	}
	return "mariadbd", append(args, redoLog)
}
