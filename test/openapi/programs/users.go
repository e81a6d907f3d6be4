package main

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"regexp"

	openapi "github.com/GIT_USER_ID/GIT_REPO_ID"
)

var next = regexp.MustCompile(`[?&]cursor=([^&>]+)[^>]*>; rel="next"`)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	config := openapi.NewConfiguration()
	config.Servers[0].URL = os.Args[1]
	users := openapi.NewAPIClient(config).UsersAPI
	draft := openapi.NewUserDraft("Ada")
	draft.SetRole("admin")
	user, _, err := users.CreateUser(ctx).UserDraft(*draft).Execute()
	must(user, err)
	roles := []string{user.GetRole()}
	patches := []*openapi.UserPatch{openapi.NewUserPatch(), openapi.NewUserPatch()}
	patches[0].SetRole("countess")
	patches[1].SetRoleNil()
	for _, patch := range patches {
		updated, _, err := users.UpdateUser(ctx, user.Id).UserPatch(*patch).Execute()
		roles = append(roles, must(updated, err).GetRole())
	}
	names := []string{}
	for request, more := users.ListUsers(ctx).Limit(2), true; more; {
		page, response, err := request.Execute()
		for _, user := range must(page, err) {
			names = append(names, user.Name)
		}
		found := next.FindStringSubmatch(response.Header.Get("Link"))
		if more = found != nil; more {
			request = users.ListUsers(ctx).Limit(2).Cursor(must(url.QueryUnescape(found[1])))
		}
	}
	json.NewEncoder(os.Stdout).Encode([][]string{roles, names})
}
