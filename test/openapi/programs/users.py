import json, re, sys, urllib.parse
from openapi_client import ApiClient, Configuration, UserDraft, UserPatch, UsersApi

# Header names arrive in lower case.
users = UsersApi(ApiClient(Configuration(host=sys.argv[1])))
id = users.create_user(UserDraft(name="Ada", role="admin")).id
roles = [users.get_user(id).role]
for role in ["countess", None]:
    roles.append(users.update_user(id, UserPatch(role=role)).role)
names, cursor = [], None
while True:
    page = users.list_users_with_http_info(limit=2, cursor=cursor)
    names += [user.name for user in page.data]
    found = re.search(r'[?&]cursor=([^&>]+)[^>]*>; rel="next"', page.headers.get("link", ""))
    if found is None:
        break
    cursor = urllib.parse.unquote(found[1])
print(json.dumps([[role or "" for role in roles], names], separators=(",", ":")))
