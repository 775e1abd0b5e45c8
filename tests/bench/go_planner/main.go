// The federation planner's algorithm in Go, to measure ours beside: `go_planner COUNT < preferences.json` spreads
// COUNT federated ReplicaSets and prints one number over all replicas, which shows that both do the same work.
//
// Source: kubernetes/federation pkg/federation-controller/util/planner/planner.go, Planner.Plan, with rebalance.
package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log"
	"os"
	"sort"
	"strconv"
)

type preference struct {
	MinReplicas int64
	MaxReplicas *int64
	Weight      int64
}

type problem struct {
	Clusters    []string
	Preferences map[string]preference
}

type entrant struct {
	preference
	name string
	hash uint32
}

// spread returns the replicas of each cluster. Nothing is placed yet, and no limit of capacity is known.
func spread(given problem, total int64, key string) map[string]int64 {
	entrants := make([]*entrant, 0, len(given.Clusters))
	plan := make(map[string]int64, len(given.Clusters))
	for _, name := range given.Clusters {
		chosen, found := given.Preferences[name]
		if !found {
			if chosen, found = given.Preferences["*"]; !found {
				plan[name] = 0
				continue
			}
		}
		hash := fnv.New32()
		hash.Write([]byte(name))
		hash.Write([]byte(key))
		entrants = append(entrants, &entrant{chosen, name, hash.Sum32()})
	}
	sort.Slice(entrants, func(i, j int) bool {
		a, b := entrants[i], entrants[j]
		return a.Weight > b.Weight || (a.Weight == b.Weight && a.hash < b.hash)
	})
	left := total
	for _, one := range entrants {
		plan[one.name] = min(one.MinReplicas, left)
		left -= plan[one.name]
	}
	for moved := true; moved && left > 0; {
		moved = false
		weights := int64(0)
		for _, one := range entrants {
			weights += one.Weight
		}
		if weights == 0 {
			break
		}
		dealt := left
		playing := make([]*entrant, 0, len(entrants))
		for _, one := range entrants {
			before := plan[one.name]
			after := before + min((dealt*one.Weight+weights-1)/weights, left)
			if one.MaxReplicas != nil && after > *one.MaxReplicas {
				after = *one.MaxReplicas
			} else {
				playing = append(playing, one)
			}
			left -= after - before
			plan[one.name] = after
			moved = moved || after > before
		}
		entrants = playing
	}
	return plan
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var given problem
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		log.Fatal(err)
	}
	all := uint32(0)
	for number := range count {
		plan := spread(given, int64(100+number%200), "shop/web-"+strconv.Itoa(number))
		for _, name := range given.Clusters {
			all = all*31 + uint32(plan[name])
		}
	}
	fmt.Println(all)
}
