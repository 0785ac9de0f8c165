package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"leasehold/engines"
	"leasehold/service"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	listen    string
	access    string
	logFormat string
	quiet     bool
	limits    service.Limits
	run       service.RunOptions
}

func (a *app) serveCommand() *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve locks by HTTP, for programs in any language",
		Long: `Serve the locks of the engine by HTTP: for curl, for programs in any language, and for
leasehold itself (--engine https://this-host). Every claim is in the engine, so any
number of servers on one engine are one service, and none of them can be lost.

Each flag can stand in the environment: LEASEHOLD_SERVE_LISTEN for --listen, and so
on. A socket from systemd takes the place of --listen. SIGTERM ends the server:
callers that wait keep their places, and continue with another server.

Other machines reach it only with TLS (--cert, --key) and with a list of callers
(--access), for which "leasehold token" makes the lines. The files are read again
when they change. docs/service.md has the requests.`,
		Example: `  leasehold serve &
  curl -X POST 127.0.0.1:7420/v1/locks/deploy -d '{"ttl": "5m", "wait": "10s"}'`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd); err != nil {
				return err
			}
			return a.serve(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:7420", "host:port, or unix:/path of a socket for this user")
	f.StringVar(&o.run.Cert, "cert", "", "file with the certificate, in PEM")
	f.StringVar(&o.run.Key, "key", "", "file with its key, in PEM")
	f.StringVar(&o.run.ClientCA, "client-ca", "", "file with the authorities of clients, in PEM: every client must have a certificate")
	f.StringVar(&o.access, "access", "", "file that says who may do what (default: everybody may do everything)")
	f.BoolVar(&o.run.Insecure, "insecure", false, "let other machines in without TLS or without --access")
	f.BoolVar(&o.run.Pprof, "pprof", false, "serve /debug/pprof/ to this machine")
	f.DurationVar(&o.run.Patience, "patience", 10*time.Second, "how long to wait at the end for requests under way")
	f.IntVar(&o.limits.Requests, "max-requests", 20_000, "requests of one caller at once, those that wait among them")
	f.IntVar(&o.limits.Claims, "max-claims", 100_000, "claims of one caller at once")
	f.StringVar(&o.logFormat, "log", "text", "how log lines are written: text or json")
	f.BoolVar(&o.quiet, "quiet", false, "log no requests, only what goes wrong")
	return cmd
}

// fromEnvironment sets flags that were not given from LEASEHOLD_SERVE_ and their names.
func fromEnvironment(cmd *cobra.Command) (err error) {
	for _, name := range []string{"listen", "cert", "key", "client-ca", "access", "insecure", "pprof", "patience", "max-requests", "max-claims", "log", "quiet"} {
		variable := "LEASEHOLD_SERVE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if value, ok := os.LookupEnv(variable); ok && !cmd.Flags().Changed(name) {
			if cmd.Flags().Set(name, value) != nil {
				err = errors.Join(err, usageError("%s=%q is not %s", variable, value, valueOf(cmd.Flags().Lookup(name))))
			}
		}
	}
	return err
}

func (a *app) serve(ctx context.Context, o *serveOptions) error {
	log, err := a.logger(o)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // most of the memory is one request each of many that wait
	}
	s, err := a.openService(ctx, o, log)
	if err != nil {
		return err
	}
	ln, err := listener(o.listen)
	if err != nil {
		return &exitError{codeFailed, errors.Join(err, s.Close())}
	}
	url := "http://" + ln.Addr().String()
	if o.run.Cert != "" {
		url = "https://" + ln.Addr().String()
	}
	err = untilAsked(ctx, func(ctx context.Context) error {
		said := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(said)
			daemon.SdNotify(false, daemon.SdNotifyStopping)
		})
		defer func() {
			if !stop() {
				<-said // this process ends next
			}
		}()
		o.run.Ready = func() {
			a.say("serving on %s", url)
			daemon.SdNotify(false, daemon.SdNotifyReady) // nobody to notify is no error
		}
		return s.Run(ctx, ln, o.run)
	})
	if err != nil {
		return &exitError{codeFailed, err}
	}
	return nil // it was asked to end, and did
}

func (a *app) openService(ctx context.Context, o *serveOptions, log *slog.Logger) (*service.Server, error) {
	var access *service.Access
	if o.access != "" {
		var err error
		if access, err = service.LoadAccess(o.access); err != nil {
			return nil, usageError("%w", err)
		}
	}
	rawURL, err := a.engineURL()
	if err != nil {
		return nil, err
	}
	need, err := parseRequire(a.require)
	if err != nil {
		return nil, usageError("%w", err)
	}
	eng, err := engines.Open(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	if missing := eng.Guarantees().Missing(need); len(missing) > 0 {
		return nil, errors.Join(usageError("the engine does not promise what --require asks for: %s", strings.Join(missing, ", ")), eng.Close())
	}
	registry := prometheus.NewRegistry()
	s, err := service.New(eng, &service.Options{Access: access, Limits: o.limits, Log: log, Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})})
	if err != nil {
		return nil, errors.Join(&exitError{codeUsage, err}, eng.Close())
	}
	registry.MustRegister(serviceMetrics(s), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s, nil
}

func (a *app) logger(o *serveOptions) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if o.quiet {
		options.Level = slog.LevelWarn
	}
	switch o.logFormat {
	case "json":
		return slog.New(slog.NewJSONHandler(a.err, options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(a.err, options)), nil
	}
	return nil, usageError("--log %q is unknown: give text or json", o.logFormat)
}

// listener is the socket that systemd passed, or a new one.
func listener(addr string) (net.Listener, error) {
	passed, err := activation.Listeners()
	if err != nil {
		return nil, err
	}
	switch len(passed) {
	case 0:
		return service.Listen(addr)
	case 1:
		if passed[0] != nil {
			return passed[0], nil
		}
	}
	return nil, fmt.Errorf("systemd passed %d sockets, and one stream socket is needed: correct the unit", len(passed))
}

func (a *app) tokenCommand() *cobra.Command {
	var allow string
	var prefixes []string
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a token for a caller of a service",
		Long: `Make a bearer token and print it, alone on standard output. The line for the file
of "serve --access" goes to standard error: it has only the hash. The token is shown
once, and stored nowhere.`,
		Example: `  leasehold token billing --allow lock,look --prefix billing/ >token 2>>access`,
		Args:    arguments(1, 1, "the name of the caller"),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, credential := service.NewToken()
			line := strings.Join(append([]string{args[0], credential, allow}, prefixes...), " ")
			if err := service.CheckAccess(line); err != nil {
				return usageError("%w", err)
			}
			if len(strings.Fields(line)) != 3+len(prefixes) { // "team a/" would be two prefixes
				return usageError("a name, right or prefix is empty or has a space, and a space ends it in the list of callers: choose one without")
			}
			// The line first: without it the token is of no use.
			if _, err := fmt.Fprintln(a.err, line); err != nil {
				return &exitError{codeFailed, err}
			}
			if _, err := fmt.Fprintln(a.out, token); err != nil {
				return &exitError{codeFailed, err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&allow, "allow", "lock,look", "what it may do: a list of lock, look, revoke")
	cmd.Flags().StringArrayVar(&prefixes, "prefix", []string{"*"}, "names it may use: those that begin so; again for more (* is every name)")
	return cmd
}
