// The same work in Go: net/http and go-sqlite3, with --features also slog, Prometheus, ETag and request ids.
package main

import (
	"bufio"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/prometheus/client_golang/prometheus"
)

type user struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
}

var features = slices.Contains(os.Args, "--features")

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	settings := "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_foreign_keys=1&_cache_size=-16384"
	db := must(sql.Open("sqlite3", "file:"+os.Args[1]+settings))
	db.SetMaxIdleConns(4)
	db.SetMaxOpenConns(4)
	// SQLite has one writer at a time.
	writer := must(sql.Open("sqlite3", "file:"+os.Args[1]+settings))
	writer.SetMaxOpenConns(1)
	must(writer.Exec("PRAGMA wal_autocheckpoint = 4000"))
	one := must(db.Prepare("SELECT id, name, role, version FROM users WHERE id = ?"))
	insert := must(writer.Prepare("INSERT INTO users (name, role) VALUES (?, ?)"))
	lists := map[string]*sql.Stmt{
		"":      must(db.Prepare("SELECT id, name, role FROM users ORDER BY id LIMIT ?1 + 0")),
		"name":  must(db.Prepare("SELECT id, name, role FROM users WHERE role = ?2 ORDER BY name, id LIMIT ?1 + 0")),
		"-name": must(db.Prepare("SELECT id, name, role FROM users WHERE role = ?2 ORDER BY name DESC, id DESC LIMIT ?1 + 0")),
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			send(w, 400, map[string]string{"error": "id must be a number"})
			return
		}
		var found user
		var version int
		if one.QueryRow(id).Scan(&found.ID, &found.Name, &found.Role, &version) != nil {
			send(w, 404, map[string]string{"error": "no such user"})
			return
		}
		if features {
			etag := `"` + strconv.Itoa(version) + `"`
			w.Header().Set("ETag", etag)
			if r.Header.Get("If-None-Match") == etag {
				w.WriteHeader(304)
				return
			}
		}
		send(w, 200, found)
	})
	mux.HandleFunc("GET /users", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		arguments := []any{20}
		if limit, err := strconv.Atoi(query.Get("limit")); err == nil {
			arguments[0] = limit
		}
		if role := query.Get("role"); role != "" {
			arguments = append(arguments, role)
		}
		rows, err := lists[query.Get("sort")].Query(arguments...)
		if err != nil {
			send(w, 500, map[string]string{"error": err.Error()})
			return
		}
		defer rows.Close()
		users := make([]user, 0, 20)
		for rows.Next() {
			var next user
			rows.Scan(&next.ID, &next.Name, &next.Role)
			users = append(users, next)
		}
		send(w, 200, users)
	})
	mux.HandleFunc("POST /users", func(w http.ResponseWriter, r *http.Request) {
		var draft user
		if json.NewDecoder(r.Body).Decode(&draft) != nil {
			send(w, 400, map[string]string{"error": "not JSON"})
			return
		}
		result, err := insert.Exec(draft.Name, draft.Role)
		if err != nil {
			send(w, 500, map[string]string{"error": err.Error()})
			return
		}
		draft.ID, _ = result.LastInsertId()
		w.Header().Set("Location", "/users/"+strconv.FormatInt(draft.ID, 10))
		send(w, 201, draft)
	})

	var handler http.Handler = mux
	if features {
		handler = observed(mux)
	}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Printf("{\"event\":\"listening\",\"http\":\"http://%s\"}\n", listener.Addr())
	http.Serve(listener, handler)
}

func send(w http.ResponseWriter, status int, value any) {
	body, _ := json.Marshal(value)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// lockedBuffer collects log lines, so that not each of them is a system call.
type lockedBuffer struct {
	sync.Mutex
	*bufio.Writer
}

func (b *lockedBuffer) Write(line []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Writer.Write(line)
}

func observed(next http.Handler) http.Handler {
	logger := slog.New(slog.NewJSONHandler(&lockedBuffer{Writer: bufio.NewWriter(os.Stdout)}, nil))
	seconds := prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: "http_request_duration_seconds", Help: "Duration of requests."},
		[]string{"method", "route", "status"},
	)
	prometheus.MustRegister(seconds)
	underWay := make(chan struct{}, 1000)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case underWay <- struct{}{}:
			defer func() { <-underWay }()
		default:
			w.WriteHeader(503)
			return
		}
		startedAt := time.Now()
		id := r.Header.Get("X-Request-Id")
		if id == "" {
			id = rand.Text()
		}
		w.Header().Set("X-Request-Id", id)
		watched := &statusWriter{ResponseWriter: w, status: 200}
		next.ServeHTTP(watched, r)
		took := time.Since(startedAt).Seconds()
		seconds.WithLabelValues(r.Method, r.Pattern, strconv.Itoa(watched.status)).Observe(took)
		logger.Info("request", "id", id, "method", r.Method, "path", r.URL.Path, "route", r.Pattern,
			"status", watched.status, "ms", took*1000)
	})
}
