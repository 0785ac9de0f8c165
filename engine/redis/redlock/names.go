package redlock

import (
	"strings"

	"leasehold/engine"
)

// checkName refuses what is no name, and a name whose key is one of those beside the
// locks: its lock would be another name's counter, or who waits for it.
func (e *Engine) checkName(name string) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	if key := e.opts.Prefix + name; strings.HasPrefix(key, side) {
		return engine.Refuse("the key %q of this name begins with %s as the keys beside the locks do: choose another name or prefix", key, side)
	}
	return nil
}
