package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"leasehold/fence"
	"leasehold/fence/fencehttp"
)

// A server of one process refuses requests of a holder that comes too late.
func ExampleHandler() {
	name := func(*http.Request) string { return "stock:42" }
	server := httptest.NewServer(fencehttp.Handler(&fence.Memory{}, name,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "written") })))
	defer server.Close()

	client := &http.Client{Transport: &fencehttp.Transport{}}
	put := func(token string) error {
		p, err := fence.Parse("stock:42", token) // a program takes fence.Of(lease)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(fence.NewContext(context.Background(), p), "PUT", server.URL, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return fencehttp.Refused(resp)
	}
	fmt.Println(put("101"))
	fmt.Println(put("102"))
	fmt.Println(errors.Is(put("101"), fence.ErrStale))
	// Output:
	// <nil>
	// <nil>
	// true
}
