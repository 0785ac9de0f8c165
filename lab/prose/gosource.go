package main

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// goSource are the texts of a Go file: doc comments of the package and of what it exports,
// texts of errors, and help of commands.
func goSource(file string, src []byte) (all []text, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(k kind, at token.Pos, body string) {
		if strings.TrimSpace(body) != "" {
			all = append(all, text{k, set.Position(at).Line, body})
		}
	}
	done := map[*ast.CommentGroup]bool{} // that of a group is each member's
	document := func(c *ast.CommentGroup) {
		if c != nil && !done[c] {
			done[c] = true
			for _, p := range paragraphs(c.Text()) {
				add(godoc, c.Pos(), p)
			}
		}
	}
	document(f.Doc)
	if !slices.Contains(strings.Split(filepath.ToSlash(file), "/"), "internal") && f.Name.Name != "main" {
		for _, d := range f.Decls {
			documented(d, document)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := called(n.Fun)
			for i, arg := range n.Args {
				if i > 2 {
					break
				}
				switch lit := literal(arg); {
				case lit == "":
				case makesErrors.MatchString(name) && i == 0:
					add(failed, arg.Pos(), verbs(lit))
				case makesFlags.MatchString(name) && i == len(n.Args)-1 || name == "Usage":
					add(help, arg.Pos(), verbs(lit))
				}
			}
			if makesFlags.MatchString(name) && len(n.Args) > 3 {
				last := n.Args[len(n.Args)-1]
				add(help, last.Pos(), verbs(literal(last)))
			}
		case *ast.FuncDecl:
			for _, lit := range saidBy(n) {
				add(failed, lit.Pos(), verbs(literal(lit)))
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(helps, key.Name) {
				for _, p := range paragraphs(literal(n.Value)) {
					add(help, n.Value.Pos(), p)
				}
			}
		}
		return true
	})
	return all, nil
}

// saidBy are the texts that an error type's own method returns.
func saidBy(f *ast.FuncDecl) (all []ast.Expr) {
	if f.Name.Name != "Error" || f.Recv == nil || f.Body == nil {
		return nil
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		back, ok := n.(*ast.ReturnStmt)
		for i := 0; ok && i < len(back.Results); i++ {
			e := back.Results[i]
			if call, ok := e.(*ast.CallExpr); ok && called(call.Fun) == "Sprintf" {
				e = call.Args[0]
			}
			all = append(all, e)
		}
		return true
	})
	return all
}

var (
	makesErrors = regexp.MustCompile(`^(New|Errorf|Refuse|usageError|say)$`)
	makesFlags  = regexp.MustCompile(`^(String|Bool|Duration|Int|Int32|Uint|StringSlice|StringArray|Count|Var)(Var)?P?$`)
	verb        = regexp.MustCompile(`%[-+# 0]*[0-9.]*[a-zA-Z]`)
)

// helps are the fields that hold texts for people: of a command, and of a finding.
var helps = []string{"Short", "Long", "Means", "Do"}

// verbs are read as what they print: a word.
func verbs(s string) string { return verb.ReplaceAllString(s, "CODE") }

func called(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// literal is a constant text, also one that is put together.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, _ := strconv.Unquote(e.Value) // it was parsed
			return s
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

// documented finds the doc comments of what a declaration exports.
func documented(d ast.Decl, document func(*ast.CommentGroup)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv))) {
			document(d.Doc)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}
				document(d.Doc)
				document(s.Doc)
				members(s.Type, document)
			case *ast.ValueSpec:
				if slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
					document(d.Doc)
					document(s.Doc)
					document(s.Comment)
				}
			}
		}
	}
}

func receiver(l *ast.FieldList) string {
	t := l.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// members documents the fields or methods that a type exports.
func members(t ast.Expr, document func(*ast.CommentGroup)) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, f := range list.List {
		if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
			document(f.Doc)
			document(f.Comment)
		}
	}
}

var link = regexp.MustCompile(`\[\*?[A-Za-z][\w./]*\]`)

// paragraphs are the texts of a doc comment, without headings and code, and with CODE for
// links.
func paragraphs(s string) (all []string) {
	blocks := func(bs []comment.Block) {
		for _, b := range bs {
			if p, ok := b.(*comment.Paragraph); ok {
				all = append(all, flat(p.Text))
			}
		}
	}
	for _, b := range new(comment.Parser).Parse(s).Content {
		switch b := b.(type) {
		case *comment.List:
			for _, item := range b.Items {
				blocks(item.Content)
			}
		default:
			blocks([]comment.Block{b})
		}
	}
	return all
}

func flat(ts []comment.Text) string {
	var b strings.Builder
	for _, t := range ts {
		switch t := t.(type) {
		case comment.Plain:
			b.WriteString(link.ReplaceAllString(string(t), "CODE"))
		case comment.Italic:
			b.WriteString(string(t))
		case *comment.Link:
			b.WriteString(flat(t.Text))
		case *comment.DocLink:
			b.WriteString("CODE")
		}
	}
	return b.String()
}
