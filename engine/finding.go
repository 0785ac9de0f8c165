package engine

// Finding is one result of an examination of a store: a danger for locks there, or a fact
// that its owner should know. Every engine package has a function Examine that reports
// them. It reads the store and changes nothing in it.
type Finding struct {
	Severity Severity

	// The heading stands in docs/doctor.md. A colon follows, and the servers, keys,
	// tables or nodes that have this property. Their names are foreign text.
	What string

	Means string // what may happen because of it, in sentences
	Do    string // what to do about it, in sentences
}

// Severity says how bad a Finding is. A larger value is worse.
type Severity uint8

const (
	SeverityNote    Severity = iota // a fact to know, or a part that could not be read
	SeverityWarning                 // a fault or a crash makes a lock fail
	SeverityProblem                 // a lock fails or blocks as it is
)

func (s Severity) String() string { return pick(s, "note", "warning", "problem") }

// ExamineOptions bound an examination. The zero value is useful.
type ExamineOptions struct {
	// Names are patterns of the keys, tables and nodes that count as locks. A * stands
	// for any text and a ? for one character; case does not matter. Default: *lock*,
	// *mutex* and *lease*.
	Names []string

	// Limit is how many keys, rows or nodes are read at most. Default 10,000. An
	// examination that stops there reports a note.
	Limit int
}
