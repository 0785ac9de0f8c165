//go:build !linux

package servers

import "errors"

func shutDown(uintptr) error { return errors.ErrUnsupported }

func syncAll(uintptr) error { return errors.ErrUnsupported }

func workingIn(string) ([]int, error) { return nil, errors.ErrUnsupported }
