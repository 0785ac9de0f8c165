package engines

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// hidden stands where a secret was.
const hidden = "xxxxx"

// Redact is rawURL fit for a log or a terminal: without passwords, whether
// before the @ or in a query. It works on the text, not on a parsed URL,
// because the URLs most in need of it are those that do not parse.
func Redact(rawURL string) string {
	redacted, _ := redact(rawURL)
	return redacted
}

// HasSecret reports whether rawURL carries a password. Such a URL belongs into
// the environment or a file, not into the arguments of a command, which every
// user of the machine can read.
func HasSecret(rawURL string) bool {
	_, secrets := redact(rawURL)
	return len(secrets) > 0
}

// redact also returns what it took out.
func redact(rawURL string) (redacted string, secrets []string) {
	if at := strings.LastIndexByte(rawURL, '@'); at >= 0 {
		if start := strings.Index(rawURL, "//"); start >= 0 && start < at {
			// Up to the last @, wherever slashes are: a password in which
			// somebody forgot to escape one must not be shown from there on.
			user, password, found := strings.Cut(rawURL[start+2:at], ":")
			if found && password != "" {
				secrets = append(secrets, password)
				rawURL = rawURL[:start+2] + user + ":" + hidden + rawURL[at:]
			}
		}
	}
	base, query, found := strings.Cut(rawURL, "?")
	if !found {
		return base, secrets
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	parts := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, part := range parts {
		key, value, _ := strings.Cut(part, "=")
		if value != "" && secretKey(key) {
			secrets = append(secrets, value)
			parts[i] = key + "=" + hidden
		}
	}
	redacted = base + "?" + strings.Join(parts, "&")
	if hasFragment {
		redacted += "#" + fragment
	}
	return redacted, secrets
}

func secretKey(key string) bool {
	if plain, err := url.QueryUnescape(key); err == nil {
		key = plain
	}
	key = strings.ToLower(key)
	for _, word := range []string{"pass", "pwd", "secret", "token", "auth"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// openError is what an engine said of a URL, without the URL's secrets. The
// engine's own error stays reachable for errors.Is and errors.As.
type openError struct {
	text string
	err  error
}

func (e *openError) Error() string { return e.text }
func (e *openError) Unwrap() error { return e.err }

func conceal(rawURL string, err error) error {
	redacted, secrets := redact(rawURL)
	var pairs []string
	hide := func(old, new string) {
		pairs = append(pairs, old, new)
		if quoted := strconv.Quote(old); quoted != `"`+old+`"` {
			pairs = append(pairs, quoted[1:len(quoted)-1], new) // parsers quote what they complain of
		}
	}
	hide(rawURL, redacted) // first, since it wins over its parts
	for _, s := range secrets {
		hide(s, hidden)
		for _, unescape := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
			if plain, err := unescape(s); err == nil {
				hide(plain, hidden)
				hide(url.QueryEscape(plain), hidden)
				hide(url.PathEscape(plain), hidden)
			}
		}
	}
	text := strings.NewReplacer(pairs...).Replace(err.Error())
	return &openError{text: fmt.Sprintf("engine %q: %s", redacted, text), err: err}
}
