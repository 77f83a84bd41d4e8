// Writes quantities.tsv: what Kubernetes' own code makes of random texts. At the root of the repository:
//
//	go run -C tests/control-plane/go ../../../plugin-sdk/syntax/testdata/quantities.go > plugin-sdk/syntax/testdata/quantities.tsv
package main

import (
	"fmt"
	"math/rand"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

var random = rand.New(rand.NewSource(1))

func one(texts ...string) string { return texts[random.Intn(len(texts))] }

// text returns a text that begins with a number and may be a quantity. Of texts without a number Kubernetes takes some for 0.
func text() string {
	switch random.Intn(3) {
	case 0:
		letters := "0123456789+-.eEinumkKMGTP"
		var b strings.Builder
		for i := random.Intn(7); i > 0; i-- {
			b.WriteByte(letters[random.Intn(len(letters))])
		}
		return one("", "+", "-", ".") + fmt.Sprint(random.Intn(100)) + b.String()
	case 1:
		return one("", "+", "-") + one("0", "007", "1", "1000", "1024", "999999999999") +
			one("", ".", ".5", ".000", ".0000000001", ".123456789", ".500") +
			one("", "Ki", "K", "m", "e", "e3", "E", "ei", "e-12", "Mi5", "Pi", "e+", "Ei", "n", "u")
	}
	limit := int64(1)
	for i := random.Intn(12); i >= 0; i-- {
		limit *= 10
	}
	number := one("", "-") + fmt.Sprint(random.Int63n(limit))
	if random.Intn(3) > 0 {
		number += fmt.Sprintf(".%0*d", 1+random.Intn(10), random.Int63n(limit))
	}
	return number + one("n", "u", "m", "", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
		"e0", "e3", "E6", "e-3", "E-2", "e4", "e+1", "e-9")
}

func canonical(q resource.Quantity) string {
	// Not String, which prints some as they were written.
	number, suffix := q.CanonicalizeBytes(nil)
	return string(number) + string(suffix)
}

func main() {
	fmt.Println("# Made by quantities.go: text, then nothing if it is no quantity, else its canonical form, its order to the last")
	fmt.Println("# quantity before it (-1, 0, 1), and the sum of that and this.")
	last := resource.MustParse("0")
	for count := 0; count < 1000; {
		t := text()
		q, err := resource.ParseQuantity(t)
		if err != nil {
			fmt.Println(t)
			count++
			continue
		}
		// Kubernetes keeps larger numbers of some spellings.
		if q.CmpInt64(1<<62) > 0 || q.CmpInt64(-(1<<62)) < 0 {
			continue
		}
		sum := last.DeepCopy()
		sum.Add(q)
		fmt.Printf("%s\t%s\t%d\t%s\n", t, canonical(q), q.Cmp(last), canonical(sum))
		last = q.DeepCopy()
		count++
	}
}
