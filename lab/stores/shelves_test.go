//go:build unix

package stores

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"leasehold/engine/redis/redisfence"
	"leasehold/fence"
	"leasehold/fence/fencehttp"
	"leasehold/fence/fencesql"
)

// shelf is where the number of pieces is kept, in one kind of store.
type shelf interface {
	read(ctx context.Context) (int, error)
	write(ctx context.Context, n int) error
	fenced(ctx context.Context, n int, p fence.Pass) error
	close()
}

func openShelf(ctx context.Context, kind, url string) (shelf, error) {
	switch kind {
	case "postgres", "postgres-column":
		db, err := sql.Open("pgx", url)
		return &sqlShelf{db, fencesql.PostgreSQL, kind == "postgres-column"}, err
	case "mysql", "mysql-column":
		db, err := sql.Open("mysql", url)
		return &sqlShelf{db, fencesql.MySQL, kind == "mysql-column"}, err
	case "postgres-pgx":
		c, err := pgx.Connect(ctx, url)
		return &pgxShelf{c}, err
	case "redis":
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{url}, ForceSingleClient: true, DisableCache: true})
		return &redisShelf{c}, err
	case "http":
		return &httpShelf{url: url}, nil
	}
	return nil, fmt.Errorf("no store %q", kind)
}

type sqlShelf struct {
	db      *sql.DB
	dialect fencesql.Dialect
	column  bool // the fence is a column of the table
}

// query has the dialect's placeholders.
func (s *sqlShelf) query(text string) string {
	d := database{dialect: s.dialect}
	return d.text(text)
}

func (s *sqlShelf) read(ctx context.Context) (n int, err error) {
	return n, s.db.QueryRowContext(ctx, "SELECT n FROM stock WHERE id = 42").Scan(&n)
}

func (s *sqlShelf) write(ctx context.Context, n int) error {
	_, err := s.db.ExecContext(ctx, s.query("UPDATE stock SET n = $1 WHERE id = 42"), n)
	return err
}

func (s *sqlShelf) fenced(ctx context.Context, n int, p fence.Pass) error {
	if s.column {
		return column(ctx, s.db, s.query, n, p)
	}
	return s.dialect.Do(ctx, s.db, p, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.query("UPDATE stock SET n = $1 WHERE id = 42"), n)
		return err
	})
}

func (s *sqlShelf) close() { s.db.Close() }

// column is the one-line form, as the documentation of fencesql has it.
func column(ctx context.Context, db *sql.DB, query func(string) string, n int, p fence.Pass) error {
	if err := p.Valid(); err != nil {
		return err
	}
	done, err := db.ExecContext(ctx, query("UPDATE stock SET n = $1, fence = $2 WHERE id = 42 AND fence <= $3"), n, p.Token, p.Token)
	if err != nil {
		return err
	}
	if rows, err := done.RowsAffected(); rows == 1 || err != nil {
		return err
	}
	mark := p.Token
	if err := db.QueryRowContext(ctx, "SELECT fence FROM stock WHERE id = 42").Scan(&mark); err != nil {
		return err
	}
	return p.Check(mark)
}

type pgxShelf struct{ c *pgx.Conn }

func (s *pgxShelf) read(ctx context.Context) (n int, err error) {
	return n, s.c.QueryRow(ctx, "SELECT n FROM stock WHERE id = 42").Scan(&n)
}

func (s *pgxShelf) write(ctx context.Context, n int) error {
	_, err := s.c.Exec(ctx, "UPDATE stock SET n = $1 WHERE id = 42", n)
	return err
}

func (s *pgxShelf) fenced(ctx context.Context, n int, p fence.Pass) error {
	return pgx.BeginFunc(ctx, s.c, func(tx pgx.Tx) error {
		if err := fencesql.CheckPgx(ctx, tx, p); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE stock SET n = $1 WHERE id = 42", n)
		return err
	})
}

func (s *pgxShelf) close() { s.c.Close(context.Background()) }

type redisShelf struct{ c rueidis.Client }

func (s *redisShelf) read(ctx context.Context) (int, error) {
	n, err := s.c.Do(ctx, s.c.B().Get().Key("pieces").Build()).AsInt64()
	return int(n), err
}

func (s *redisShelf) write(ctx context.Context, n int) error {
	return s.c.Do(ctx, s.c.B().Set().Key("pieces").Value(strconv.Itoa(n)).Build()).Error()
}

func (s *redisShelf) fenced(ctx context.Context, n int, p fence.Pass) error {
	_, err := redisfence.New(s.c).Do(ctx, p, "pieces", []string{"SET", "pieces", strconv.Itoa(n)})
	return err
}

func (s *redisShelf) close() { s.c.Close() }

// httpShelf has connections of its own: the end of a test server closes those that are idle of
// all that share the default ones.
type httpShelf struct {
	url         string
	connections http.Transport
}

func (s *httpShelf) read(ctx context.Context) (int, error) {
	text, err := s.do(ctx, "GET", "/", "")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (s *httpShelf) write(ctx context.Context, n int) error {
	_, err := s.do(ctx, "PUT", "/", strconv.Itoa(n))
	return err
}

func (s *httpShelf) fenced(ctx context.Context, n int, p fence.Pass) error {
	_, err := s.do(fence.NewContext(ctx, p), "PUT", "/fenced", strconv.Itoa(n))
	return err
}

func (s *httpShelf) do(ctx context.Context, method, path, body string) (string, error) {
	client := http.Client{Transport: &fencehttp.Transport{Base: &s.connections}}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err := fencehttp.Refused(resp); err != nil {
		return "", err
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return string(text), err
}

func (s *httpShelf) close() { s.connections.CloseIdleConnections() }
