package service

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"leasehold/engine"
)

// lockInfo is LockInfo of OpenTofu and Terraform: what they send, and print of whoever holds
// the lock.
type lockInfo struct {
	ID        string    `json:"ID"`
	Operation string    `json:"Operation,omitempty"`
	Info      string    `json:"Info,omitempty"`
	Who       string    `json:"Who,omitempty"`
	Version   string    `json:"Version,omitempty"`
	Created   time.Time `json:"Created,omitzero"`
	Path      string    `json:"Path,omitempty"`
}

// tofuMark begins the label of a claim whose label is a lockInfo.
const tofuMark = "tofu "

// owner is the owner of the claim that info asks for. The Server remembers nothing: what other
// runs are told stands in the queue. What is too long for that is cut, the least important
// first.
func (info lockInfo) owner(caller string) (engine.Owner, error) {
	o := engine.Owner{Host: caller, Since: time.Now().UTC()}
	label := func() error {
		text, err := json.Marshal(info)
		o.Label = tofuMark + string(text)
		return err
	}
	if err := label(); err != nil {
		return o, fmt.Errorf("the LockInfo cannot be written: %w", err)
	}
	for _, field := range []*string{&info.Info, &info.Path, &info.Version, &info.Who, &info.Operation} {
		if o.Fits() {
			break
		}
		// Each byte takes one or more in the text, so this may cut more than necessary, and
		// never less.
		*field = shorten(*field, len(o.Text())-engine.MaxOwner)
		label() // has been written before
	}
	return o, nil // Request.Check refuses what is still too long
}

// shorten takes at least n bytes from the end of text, and shows it.
func shorten(text string, n int) string {
	const cut = "…"
	keep := len(text) - n - len(cut)
	if keep <= 0 {
		return ""
	}
	for !utf8.RuneStart(text[keep]) {
		keep--
	}
	return text[:keep] + cut
}

// infoOf says who holds a name, to OpenTofu and Terraform. All of it is what somebody said of
// himself, so it is never more than something to print, and to compare with the ID that a
// person was shown.
func infoOf(name string, c engine.Claim) lockInfo {
	left := "ends by itself within " + c.TTL.Round(time.Second).String()
	if c.TTL == 0 {
		left = "does not end by itself"
	}
	var info lockInfo
	text, marked := strings.CutPrefix(c.Owner.Label, tofuMark)
	if marked && json.Unmarshal([]byte(text), &info) == nil && info.ID != "" {
		info.Info = joined(info.Info, "locked by "+c.Owner.Host, left)
	} else {
		info = lockInfo{
			ID: strconv.FormatUint(c.Ticket, 10), Operation: "a lock of leasehold", Who: c.Owner.String(), Created: c.Owner.Since,
			Info: joined("no run of OpenTofu or Terraform", left+" unless it is renewed"),
		}
	}
	if info.Path == "" {
		info.Path = name
	}
	for _, field := range []*string{&info.ID, &info.Operation, &info.Info, &info.Who, &info.Version, &info.Path} {
		*field = printable(*field)
	}
	return info
}

// joined joins what is not empty.
func joined(parts ...string) string {
	return strings.Trim(strings.Join(parts, "; "), "; ")
}

// printable has no character that does something to a terminal: the clients print LockInfo
// as it is.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}
