package main

import (
	"fmt"
	"regexp"
	"slices"
)

// rule is a pattern of sentences that are hard to read, and what to write instead.
type rule struct {
	name    string
	pattern *regexp.Regexp
	but     *regexp.Regexp // nil, or what is no case of it
	advice  string
	kinds   []kind // nil: everywhere
}

// finding is a sentence that a rule has caught.
type finding struct{ rule, advice string }

// mostWords bounds one sentence.
const mostWords = 35

// question is a sentence in which a clause may come first.
var question = regexp.MustCompile(`\?["')]*$`)

// rulebook is all rules, compiled once.
func rulebook() []rule {
	re := regexp.MustCompile
	return []rule{
		{name: "clause as subject", pattern: re(`^(Who|What|Whom) `), but: question, kinds: []kind{page, godoc, help, failed},
			advice: "name the component or person that does it"},
		{name: "clause as subject", pattern: re(`[,;:] (?:and |but |so |then )?what (?:[a-z']+ ){1,6}(is|are|was|has|does|goes|comes|stays|ends|makes|needs)\b`),
			advice: "name the thing"},
		{name: "clause as subject", pattern: re(`(?i)\bwho(?:m)?ever\b|\bwhatever (is|has|was|it|the|they|somebody)\b|\bwho(?:soever)? is next\b`),
			advice: "name the component: the next waiter, any caller"},
		{name: "clause as object", pattern: re(`(?i)\b(for|of|by|to|from|with|than|beside|among|before|after|behind|tells|lets|wakes|asks|hands|gives) who (is|are|was|has|have|may|can|must|comes|leaves|joins|waits|holds|asks|reads|writes|locks|does|calls)\b`),
			advice: "name the person or component"},
		{name: "no subject", pattern: re(`^(Nothing|Nobody|None) (is|are|was|has|can|may|else)\b`), kinds: []kind{page, godoc},
			advice: "say what the component does not do"},
		{name: "told, hears", pattern: re(`(?i)\b(is|are|was|were|be|been|being|gets|get) told\b|\bhears? (of|that|from|about)\b|\bheard (of|that|from)\b`),
			advice: "is notified, learns, receives"},
		{name: "looks", pattern: re(`(?i)\blooks? (every|once|again|by itself|at all|after it|for it)\b|\blooks? and\b`),
			advice: "polls, reads, checks"},
		{name: "taken to", pattern: re(`(?i)\b(is|are|was) taken (to|for)\b|\btakes? it (to|for)\b`), advice: "is assumed to, counts as"},
		{name: "of ours", pattern: re(`(?i)\bof (ours|theirs|yours|his|somebody's)\b`), advice: "name whose it is"},
		{name: "as somebody", pattern: re(`(?i)\bas (somebody|someone|one) who\b|\bwho may\b[ .,;:]*$|\bsomebody who may\b`), advice: "name the role and the right"},
		{name: "also where", pattern: re(`(?i)\balso (where|when|if|what|one|in one|of one)\b`), advice: "even if, and"},
		{name: "few alone", pattern: re(`(?i)\b(for|of|by|to) few\b[ .,;:]*$`), advice: "say how many of what"},
		{name: "preposition at the end", pattern: re(`(?i)\b(against|upon|into|from|of|by|beside|behind|with|for|to)[.:;]$`),
			but:    re(`(?i)\b(leaves?|left|leaving) .*behind[.:;]$|\b(due|used|asked|waited|looked|accounted|cared|paid|stands|meant|made) (for|to|of|by|from)[.:;]$`),
			advice: "put the noun behind the preposition"},
		{name: "preposition at the end", pattern: re(`(?i)\b(against|upon)$`), kinds: []kind{page, godoc, help, failed},
			advice: "put the noun behind the preposition"}, // a text of an error or a flag has no full stop
		{name: "have as well", pattern: re(`(?i)\bhave \S+ as well\b`), advice: "also use, also return"},
		{name: "let 's", pattern: re(`(?i)\blet [a-z ]+'s [a-z]+[.,;:]?$`), advice: "allow the user to"},
		{name: "no noun", pattern: re(`(?i)\b(default|else|otherwise): (nobody|nothing|none)\b`), advice: "say what happens"},
		{name: "no verb", pattern: re(`(^|: )An? [a-z]+ with [A-Z]?[a-z]+ and nothing else\b`), advice: "write a sentence"},
		{name: "for itself", pattern: re(`(?i)\bfor itself\b|\bby itself alone\b`), but: re(`(?i)\bwait(s|ed|ing)? for itself`), advice: "separately, alone"},
		{name: "given-up word", pattern: re(`(?i)\b(lends?|lending|borrows?|ghosts?|doubtful|unsure|agenda|bells?)\b`),
			advice: "the glossary has another word"},
		{name: "one does", pattern: re(`(?i)\bthe one (who|that|which) (holds|waits|is|has|comes|leaves|asks) `), advice: "the holder, the waiter"},
		{name: "free relative", pattern: re(`(?i)\b(run|runs|do|does|keeps?|deletes?|returns?|gives?|takes?|reads?|sends?) what\b [^,.;:]{0,80}\b(prints|says|holds|waits|stands|leaves|made|makes|asked|came|is there|was there)\b`),
			advice: "name the thing"},
	}
}

// judge applies rules to a sentence.
func judge(rules []rule, k kind, s sentence) (found []finding) {
	for _, r := range rules {
		if r.applies(k) && r.pattern.MatchString(s.text) && (r.but == nil || !r.but.MatchString(s.text)) {
			found = append(found, finding{r.name, r.advice})
		}
	}
	if s.words > mostWords && k != cell {
		found = append(found, finding{"long", fmt.Sprintf("%d words, at most %d", s.words, mostWords)})
	}
	return found
}

func (r *rule) applies(k kind) bool {
	return len(r.kinds) == 0 || slices.Contains(r.kinds, k)
}
