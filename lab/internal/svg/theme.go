package svg

import (
	"fmt"
	"image/color"
)

// Theme is the colours of one ground.
type Theme struct {
	Name              string
	Ground, Ink, Grid color.RGBA
	Us                color.RGBA   // leasehold
	Others            []color.RGBA // in turn
}

// Themes returns both grounds. A picture does not draw its ground: Ground is for labels
// on dark boxes.
func Themes() []Theme {
	return []Theme{
		{
			Name: "light", Ground: rgb(0xffffff), Ink: rgb(0x1f2328), Grid: rgb(0xd1d9e0), Us: rgb(0x0b6e4f),
			Others: []color.RGBA{rgb(0x8c959f), rgb(0xb55a30), rgb(0x5b5fc7)},
		},
		{
			Name: "dark", Ground: rgb(0x0d1117), Ink: rgb(0xe6edf3), Grid: rgb(0x3d444d), Us: rgb(0x3fb98a),
			Others: []color.RGBA{rgb(0x768390), rgb(0xe08b5c), rgb(0x9a9cf0)},
		},
	}
}

func rgb(n uint32) color.RGBA { return color.RGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 0xff} }

func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }
