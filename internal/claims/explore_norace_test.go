//go:build !race

package claims

const raced = false
