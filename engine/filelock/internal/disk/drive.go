package disk

import "strings"

// driveOf is the root of the drive of a path that GetFinalPathNameByHandle gave, as
// GetDriveType takes it. It is empty if the path is a share of another machine.
func driveOf(final string) string {
	path, ok := strings.CutPrefix(final, `\\?\`)
	root, _, _ := strings.Cut(path, `\`)
	switch {
	case !ok || root == "" || strings.EqualFold(root, "UNC"):
		return ""
	case strings.HasSuffix(root, ":"): // a letter
		return root + `\`
	}
	return `\\?\` + root + `\` // a volume that has none
}
