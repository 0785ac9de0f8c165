// Ui looks at the pages of service/ui in a real browser: its tests do what people do there,
// and
//
//	go run ./lab/ui -write docs/pictures     # make pictures-ui
//
// takes the pictures of docs/dashboard.md. It needs Debian's package chromium. The tests
// also need axe-core (make deps puts it into .deps), and skip without.
package main
