package servers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// restorePoint is what the log calls the moment of a Backup.
const restorePoint = "leasehold"

// restoreWithin bounds how long the log takes to be archived, or to be read.
const restoreWithin = 30 * time.Second

// archive is the path of a segment of the log that the server has finished.
func (s *PostgresServer) archive(segment string) string {
	return filepath.Join(s.Dir, "archive-"+segment)
}

func (s *PostgresServer) copied() string { return filepath.Join(s.Dir, "copy") }

// Backup copies the databases, marks this moment in the log, and returns when the log is kept
// up to there. It needs PostgresOptions.Archive.
func (s *PostgresServer) Backup() error {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	if err := s.run("pg_basebackup", "-D", s.copied(), "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-c", "fast", "--no-sync"); err != nil {
		return err
	}
	if _, err := s.Query("SELECT pg_create_restore_point('" + restorePoint + "')"); err != nil {
		return err
	}
	segment, err := s.Query("SELECT pg_walfile_name(pg_switch_wal())")
	if err != nil {
		return err
	}
	segment = strings.TrimSpace(segment)
	return until(restoreWithin, func() error {
		last, err := s.Query("SELECT coalesce(max(last_archived_wal), '') FROM pg_stat_archiver")
		if err == nil && last < segment {
			err = fmt.Errorf("the log is archived to %q, and not to %s", last, segment)
		}
		return err
	})
}

// Restore ends the server and starts it again, at the same address, with what it had at the
// moment of the Backup: its copy, and the log from there to the mark.
func (s *PostgresServer) Restore() error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(s.data()), os.Rename(s.copied(), s.data())); err != nil {
		return err
	}
	settings, err := os.OpenFile(filepath.Join(s.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(settings, "restore_command = 'cp %s %%p'\nrecovery_target_name = '%s'\nrecovery_target_action = 'promote'\n", s.archive("%f"), restorePoint)
	err = errors.Join(err, settings.Close(), s.run("touch", filepath.Join(s.data(), "recovery.signal")))
	if err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	return until(restoreWithin, func() error {
		reads, err := s.Query("SELECT pg_is_in_recovery()")
		if err == nil && strings.TrimSpace(reads) != "f" {
			err = errors.New("the server only reads still")
		}
		return err
	})
}
