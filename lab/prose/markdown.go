package main

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	mdtext "github.com/yuin/goldmark/text"
)

// markdown are the texts of a page: paragraphs, items of lists, cells and headings. Code
// blocks are none. An item that is only a link repeats a heading.
func markdown(src []byte) (all []text) {
	root := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(mdtext.NewReader(src))
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // nothing of ours fails
		if !entering {
			return ast.WalkContinue, nil
		}
		k := page
		switch n.(type) {
		case *ast.Paragraph, *ast.TextBlock:
			if link, ok := n.FirstChild().(*ast.Link); ok && link.NextSibling() == nil {
				k = cell
			}
		case *ast.Heading, *extast.TableCell:
			k = cell
		default:
			return ast.WalkContinue, nil
		}
		if body := strings.TrimSpace(plain(n, src)); body != "" {
			line := 1
			if lines := n.Lines(); lines != nil && lines.Len() > 0 {
				line += bytes.Count(src[:lines.At(0).Start], []byte("\n"))
			}
			all = append(all, text{k, line, body})
		}
		return ast.WalkSkipChildren, nil
	})
	return all
}

// plain is what is read of a node: without marks, and with CODE for code.
func plain(n ast.Node, src []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Segment.Value(src))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.CodeSpan:
			b.WriteString("CODE")
		case *ast.RawHTML, *ast.Image:
		default:
			b.WriteString(plain(c, src))
		}
	}
	return b.String()
}
