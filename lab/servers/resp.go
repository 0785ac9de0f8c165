package servers

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Conn is a bare Redis connection for setting servers up and looking into
// them, independent of the client library under test.
type Conn struct {
	c net.Conn
	r *bufio.Reader
}

// RedisError is an error that the server answered.
type RedisError string

func (e RedisError) Error() string { return string(e) }

// DialRedis connects to "host:port" or to the path of a socket. A nil
// configuration means no TLS.
func DialRedis(addr string, config *tls.Config) (*Conn, error) {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	c, err := net.DialTimeout(network, addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	if config != nil {
		c = tls.Client(c, config)
	}
	return &Conn{c, bufio.NewReader(c)}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Do sends one command and returns its reply: string, int64, []any, nil, or a
// RedisError as the error. A reply must come within ten seconds.
func (c *Conn) Do(args ...string) (any, error) {
	c.c.SetDeadline(time.Now().Add(10 * time.Second))
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.c.Write(b.Bytes()); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *Conn) read() (any, error) {
	text, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	text = strings.TrimSuffix(text, "\r\n")
	if text == "" {
		return nil, errors.New("not a Redis reply: an empty line")
	}
	kind, text := text[0], text[1:]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, RedisError(text)
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a Redis reply: %q", string(kind)+text)
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			v, err := c.read()
			var answered RedisError
			if err != nil && !errors.As(err, &answered) {
				return nil, err
			}
			if list[i] = v; err != nil {
				list[i] = answered
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("not a Redis reply: %q", string(kind)+text)
}
