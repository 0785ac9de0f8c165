//go:build no_redis || no_zookeeper || no_etcd || no_mysql || no_postgres

package engines

import "fmt"

// leftOut is the error of an engine that a build tag has left out.
func leftOut(tag string) error {
	return fmt.Errorf("%w of this program: the build tag %s left that engine out: take a program that was built without the tag", ErrURL, tag)
}
