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
// before the @ or in a query. A user without a password is hidden too, since
// many a password was put there by mistake. It works on the text, not on a
// parsed URL, because the URLs most in need of it are those that do not parse.
func Redact(rawURL string) string {
	return redact(rawURL).text
}

// HasSecret reports whether rawURL carries a password. Such a URL belongs into
// the environment or a file, not into the arguments of a command, which every
// user of the machine can read.
func HasSecret(rawURL string) bool {
	return redact(rawURL).passwords
}

// redaction is a URL without its secrets, and what they were.
type redaction struct {
	text      string
	secrets   []string
	user      string // stands alone before the @: a name, or a password by mistake
	passwords bool   // some of the secrets were passwords for certain
}

func redact(rawURL string) (r redaction) {
	if at := strings.LastIndexByte(rawURL, '@'); at >= 0 {
		if start := strings.Index(rawURL, "//"); start >= 0 && start < at {
			// Up to the last @, wherever slashes are: a password in which
			// somebody forgot to escape one must not be shown from there on.
			user, password, found := strings.Cut(rawURL[start+2:at], ":")
			switch {
			case found && password != "":
				r.secrets, r.passwords = append(r.secrets, password), true
				rawURL = rawURL[:start+2] + user + ":" + hidden + rawURL[at:]
			case !found && user != "":
				r.user = user
				rawURL = rawURL[:start+2] + hidden + rawURL[at:]
			}
		}
	}
	base, query, found := strings.Cut(rawURL, "?")
	if r.text = base; !found {
		return r
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	parts := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, part := range parts {
		key, value, _ := strings.Cut(part, "=")
		if value != "" && secretKey(key) {
			r.secrets, r.passwords = append(r.secrets, value), true
			parts[i] = key + "=" + hidden
		}
	}
	r.text += "?" + strings.Join(parts, "&")
	if hasFragment {
		r.text += "#" + fragment
	}
	return r
}

func secretKey(key string) bool {
	if plain, err := url.QueryUnescape(key); err == nil {
		key = plain
	}
	key = strings.ToLower(key)
	if strings.HasSuffix(key, "file") {
		return false // it says where the secret is
	}
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

// forms are a part of a URL as it stands there, and as it may be meant.
func forms(part string) (all []string) {
	if part == "" {
		return nil
	}
	all = append(all, part)
	for _, unescape := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
		if plain, err := unescape(part); err == nil {
			all = append(all, plain)
		}
	}
	return all
}

func conceal(rawURL string, err error) error {
	r := redact(rawURL)
	var pairs []string
	hide := func(old, new string) {
		pairs = append(pairs, old, new)
		if quoted := strconv.Quote(old); quoted != `"`+old+`"` {
			pairs = append(pairs, quoted[1:len(quoted)-1], new) // parsers quote what they complain of
		}
	}
	hide(rawURL, r.text) // first, since it wins over its parts
	for _, form := range forms(r.user) {
		// Not wherever it stands: a user is often a word of the error, as leasehold is.
		for _, around := range []string{"//%s@", "user=%s ", "%q", "'%s'"} {
			hide(fmt.Sprintf(around, form), fmt.Sprintf(around, hidden))
		}
	}
	for _, secret := range r.secrets {
		for _, form := range forms(secret) {
			hide(form, hidden)
			hide(url.QueryEscape(form), hidden)
			hide(url.PathEscape(form), hidden)
			hide(strings.TrimPrefix(url.UserPassword("", form).String(), ":"), hidden)
		}
	}
	text := strings.NewReplacer(pairs...).Replace(err.Error())
	return &openError{text: fmt.Sprintf("engine %q: %s", r.text, text), err: err}
}
