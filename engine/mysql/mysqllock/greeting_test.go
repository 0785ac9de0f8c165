package mysqllock

import (
	"strings"
	"testing"
)

func TestWhatIsNoServerIsNamed(t *testing.T) {
	rows.WhatIsNoServerIsNamed(t, func(addr string) string { return "mysql://root@" + addr + "/test" }, "said nothing for 5s: it is no MySQL", "does not speak as MySQL does")
}

// A parameter that is not known is refused, whatever it would make of the driver.
func TestOnlyWhatIsKnownGoesToTheDriver(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"allowAllFiles=true", "allowCleartextPasswords=true", "allowOldPasswords=true", "multiStatements=true", "nosuch=1", "sql_mode=%27%27",
		"autocommit=0", "innodb_lock_wait_timeout=(SELECT+1)", "lock_wait_timeout=x",
	} {
		key, _, _ := strings.Cut(p, "=")
		if _, _, _, err := parse("mysql://me@h/d?" + p); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range []string{"tls=skip-verify", "timeout=3s", "readTimeout=30s", "charset=utf8mb4", "innodb_lock_wait_timeout=30&lock_wait_timeout=9"} {
		if _, _, _, err := parse("mysql://me@h/d?" + p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}
