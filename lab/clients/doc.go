// Package clients generates clients of the service in other languages from its OpenAPI
// document, and runs them against a live service. The generated code is in no tree: the
// tests make it anew, with generators of pinned versions.
//
//	python       openapi-python-client: contract.py
//	typescript   openapi-typescript and openapi-fetch: contract.ts, and worker.ts of docs/clients.md
//
// The generators are installed in the user's cache folder, once for each version of the files
// that pin them. A test whose language is not there skips, and says so.
package clients
