// GENERATED CODE -- DO NOT EDIT! npm run generate:client
// shape ad3474d724216576b4092991df3e34d6de29be7e418567f0d748aa066a54cdc8

export interface paths {
    "/users": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        get: operations["listUsers"];
        post: operations["createUser"];
    };
    "/users/{id}": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
            path: { id: components["parameters"]["Id"]; };
        };
        get: operations["getUser"];
        put: operations["replaceUser"];
        delete: operations["deleteUser"];
        patch: operations["updateUser"];
    };
    "/users/{id}/posts": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
            path: { id: components["parameters"]["Id"]; };
        };
        get: operations["listPosts"];
        post: operations["createPost"];
    };
    "/users/{id}/posts/{postId}": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
            path: { id: components["parameters"]["Id"]; postId: components["parameters"]["PostId"]; };
        };
        get: operations["getPost"];
        put: operations["replacePost"];
        delete: operations["deletePost"];
        patch: operations["updatePost"];
    };
    "/changes": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        get: operations["listChanges"];
    };
    "/health": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        get: operations["getHealth"];
    };
    "/health/ready": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        get: operations["getReadiness"];
    };
    "/metrics": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        get: operations["getMetrics"];
    };
    "/info": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        get: operations["getInfo"];
    };
    "/echo": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        post: operations["echo"];
    };
    "/private": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        get: operations["getSecret"];
    };
    "/boom": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        get: operations["boom"];
    };
    "/": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        get: operations["getConsole"];
    };
    "/{file}": {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
            path: { file: components["parameters"]["File"]; };
        };
        get: operations["getFile"];
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        User: { id: components["schemas"]["NewId"]; name: components["schemas"]["Name"]; role?: components["schemas"]["Role"]; };
        Id: number;
        NewId: components["schemas"]["Id"];
        UserId: components["schemas"]["Id"];
        PathId: components["schemas"]["Id"];
        Line: string;
        Text: string;
        Prefix: string;
        Name: components["schemas"]["Line"];
        Role: string;
        UserDraft: { name: components["schemas"]["Name"]; role?: components["schemas"]["Role"]; };
        UserReplacement: { id?: components["schemas"]["PathId"]; name: components["schemas"]["Name"]; role?: components["schemas"]["Role"]; };
        UserPatch: { name?: components["schemas"]["Name"]; role?: string | null; };
        Post: {
            id: components["schemas"]["NewId"];
            userId: components["schemas"]["UserId"];
            title: components["schemas"]["Title"];
            body: components["schemas"]["PostBody"];
        };
        PostDraft: { title: components["schemas"]["Title"]; body?: components["schemas"]["PostBody"]; };
        PostReplacement: {
            id?: components["schemas"]["PathId"];
            userId?: components["schemas"]["PathId"];
            title: components["schemas"]["Title"];
            body?: components["schemas"]["PostBody"];
        };
        PostPatch: { title?: components["schemas"]["Title"]; body?: components["schemas"]["PostBody"]; };
        Title: components["schemas"]["Line"];
        PostBody: components["schemas"]["Text"];
        Health: { ok: boolean; };
        Info: {
            method: "GET";
            path: string;
            headers: { [key: string]: string | string[]; };
        };
        AnyValue: unknown;
        Echo: { youSent: components["schemas"]["AnyValue"]; };
        Secret: { secretData: number; };
        Error: { error: string; };
        Problem: { title: string; status: number; detail: string; instance: string; };
        ChangeType: "user.created" | "user.updated" | "user.deleted" | "post.created" | "post.updated" | "post.deleted";
        ChangeEvent: {
            specversion: "1.0";
            id: string;
            source: string;
            type: components["schemas"]["ChangeType"];
            subject: string;
            time: string;
            datacontenttype: "application/json";
            version: number;
            requestid?: string;
            keyname?: string;
            data: components["schemas"]["User"] | components["schemas"]["Post"];
        };
    };
    responses: {
        Post: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Cache-Control": components["headers"]["NoCache"];
                ETag: components["headers"]["ETag"];
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Post"]; };
        };
        Deleted: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; [name: string]: unknown; };
            content?: never;
        };
        Malformed: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        InvalidQuery: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        InvalidId: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        InvalidBody: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        InvalidJson: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Forbidden: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Unauthenticated: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Cache-Control": components["headers"]["NoStore"];
                "WWW-Authenticate": components["headers"]["WwwAuthenticate"];
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        NotModified: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Cache-Control": components["headers"]["NoCache"];
                ETag: components["headers"]["ETag"];
                [name: string]: unknown;
            };
            content?: never;
        };
        NoSuchUser: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        NoSuchRecord: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        NoSuchFile: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        TurnedOff: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Timeout: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Conflict: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Cache-Control": components["headers"]["NoStore"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Unchangeable: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Referenced: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        PreconditionFailed: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        RecordChanged: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        FileChanged: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        TooLarge: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        UnsupportedPost: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Cache-Control": components["headers"]["NoStore"];
                "Accept-Post": components["headers"]["AcceptPost"];
                "Accept-Encoding": components["headers"]["AcceptEncoding"];
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        UnsupportedPut: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Cache-Control": components["headers"]["NoStore"];
                Accept: components["headers"]["Accept"];
                "Accept-Encoding": components["headers"]["AcceptEncoding"];
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        UnsupportedPatch: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Cache-Control": components["headers"]["NoStore"];
                "Accept-Patch": components["headers"]["AcceptPatch"];
                "Accept-Encoding": components["headers"]["AcceptEncoding"];
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        RangeNotSatisfiable: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Cache-Control": components["headers"]["NoStore"];
                "Content-Range": components["headers"]["ContentRange"];
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        ExpectationFailed: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Misdirected: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        KeyReused: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        PreconditionRequired: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        HeadTooLarge: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Internal: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        NotImplemented: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Unavailable: {
            headers: {
                "X-Request-Id": components["headers"]["RequestIdIfRead"];
                "Cache-Control": components["headers"]["NoStore"];
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        NotReady: {
            headers: {
                "X-Request-Id": components["headers"]["RequestIdIfRead"];
                "Cache-Control": components["headers"]["NoStore"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        NoFileDescriptor: {
            headers: {
                "X-Request-Id": components["headers"]["RequestIdIfRead"];
                "Cache-Control": components["headers"]["NoStore"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Late: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        VersionNotSupported: {
            headers: { "X-Request-Id": components["headers"]["RequestIdIfRead"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
        Gone: {
            headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
            content: { "application/json": components["schemas"]["Error"]; "application/problem+json": components["schemas"]["Problem"]; };
        };
    };
    parameters: {
        Id: components["schemas"]["Id"];
        PostId: components["schemas"]["Id"];
        File: string;
        Role: components["schemas"]["Role"];
        NamePrefix: components["schemas"]["Prefix"];
        UserIds: string;
        TitlePrefix: components["schemas"]["Prefix"];
        UserSort: string;
        PostSort: string;
        Page: number;
        Limit: number;
        PageLimit: number;
        Cursor: string;
        Prefer: string;
        IfMatch: string;
        IfNoneMatch: string;
        IdempotencyKey: string;
        RequestId: string;
        Traceparent: string;
        IfModifiedSince: string;
        FileIfMatch: string;
        IfUnmodifiedSince: string;
        Range: string;
        IfRange: string;
        After: number;
        ChangeLimit: number;
        ChangeTypes: string;
        ChangeUser: number;
        LastEventId: number;
    };
    requestBodies: never;
    headers: {
        RequestId: string;
        RequestIdIfRead: string;
        NoStore: "no-store";
        FileCache: "no-cache";
        NoCache: "private, no-cache";
        ETag: string;
        Location: string;
        Link: string;
        PageLink: string;
        DescriptionLink: string;
        VaryPrefer: string;
        VaryEncoding: string;
        TotalCount: number;
        PreferenceApplied: "count=exact";
        IdempotencyReplayed: "true";
        RetryAfter: number;
        WwwAuthenticate: string;
        Accept: string;
        AcceptPost: string;
        AcceptPatch: string;
        AcceptEncoding: "identity";
        LastModified: string;
        PagePolicy: string;
        NoSniff: "nosniff";
        AcceptRanges: "bytes";
        ContentEncoding: "br" | "gzip";
        ContentRange: string;
        NextLink: string;
        FeedCache: "private, no-cache" | "no-store, no-transform";
        AccelBuffering: "no";
        VaryAccept: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listUsers: {
        parameters: {
            query?: {
                role?: components["parameters"]["Role"];
                name?: components["parameters"]["NamePrefix"];
                id?: components["parameters"]["UserIds"];
                sort?: components["parameters"]["UserSort"];
                page?: components["parameters"]["Page"];
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                Prefer?: components["parameters"]["Prefer"];
            };
        };
        responses: {
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["NoCache"];
                    Vary: components["headers"]["VaryPrefer"];
                    "X-Total-Count": components["headers"]["TotalCount"];
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    Link: components["headers"]["Link"];
                    [name: string]: unknown;
                };
                content: { "application/json": components["schemas"]["User"][]; };
            };
            400: components["responses"]["InvalidQuery"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    createUser: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
        };
        requestBody: {
            content: { "application/json": components["schemas"]["UserDraft"]; };
        };
        responses: {
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["NoCache"];
                    ETag: components["headers"]["ETag"];
                    Location: components["headers"]["Location"];
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    [name: string]: unknown;
                };
                content: { "application/json": components["schemas"]["User"]; };
            };
            400: components["responses"]["InvalidBody"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedPost"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            422: components["responses"]["KeyReused"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    getUser: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: { id: components["parameters"]["Id"]; };
        };
        responses: {
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["NoCache"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: { "application/json": components["schemas"]["User"]; };
            };
            304: components["responses"]["NotModified"];
            400: components["responses"]["InvalidId"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchUser"];
            408: components["responses"]["Timeout"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    replaceUser: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: { id: components["parameters"]["Id"]; };
        };
        requestBody: {
            content: { "application/json": components["schemas"]["UserReplacement"]; };
        };
        responses: {
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["NoCache"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: { "application/json": components["schemas"]["User"]; };
            };
            400: components["responses"]["InvalidBody"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchUser"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Unchangeable"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedPut"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            428: components["responses"]["PreconditionRequired"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    deleteUser: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: { id: components["parameters"]["Id"]; };
        };
        responses: {
            204: components["responses"]["Deleted"];
            400: components["responses"]["InvalidId"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchUser"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Referenced"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            428: components["responses"]["PreconditionRequired"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    updateUser: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: { id: components["parameters"]["Id"]; };
        };
        requestBody: {
            content: { "application/merge-patch+json": components["schemas"]["UserPatch"]; "application/json": components["schemas"]["UserPatch"]; };
        };
        responses: {
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["NoCache"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: { "application/json": components["schemas"]["User"]; };
            };
            400: components["responses"]["InvalidBody"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchUser"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Unchangeable"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedPatch"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            428: components["responses"]["PreconditionRequired"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    listPosts: {
        parameters: {
            query?: {
                title?: components["parameters"]["TitlePrefix"];
                sort?: components["parameters"]["PostSort"];
                page?: components["parameters"]["Page"];
                limit?: components["parameters"]["PageLimit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                Prefer?: components["parameters"]["Prefer"];
            };
            path: { id: components["parameters"]["Id"]; };
        };
        responses: {
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["NoCache"];
                    Vary: components["headers"]["VaryPrefer"];
                    "X-Total-Count": components["headers"]["TotalCount"];
                    "Preference-Applied": components["headers"]["PreferenceApplied"];
                    Link: components["headers"]["PageLink"];
                    [name: string]: unknown;
                };
                content: { "application/json": components["schemas"]["Post"][]; };
            };
            400: components["responses"]["InvalidQuery"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchUser"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    createPost: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: { id: components["parameters"]["Id"]; };
        };
        requestBody: {
            content: { "application/json": components["schemas"]["PostDraft"]; };
        };
        responses: {
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["NoCache"];
                    ETag: components["headers"]["ETag"];
                    Location: components["headers"]["Location"];
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    [name: string]: unknown;
                };
                content: { "application/json": components["schemas"]["Post"]; };
            };
            400: components["responses"]["InvalidBody"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchUser"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedPost"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            422: components["responses"]["KeyReused"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    getPost: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: { id: components["parameters"]["Id"]; postId: components["parameters"]["PostId"]; };
        };
        responses: {
            200: components["responses"]["Post"];
            304: components["responses"]["NotModified"];
            400: components["responses"]["InvalidId"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchRecord"];
            408: components["responses"]["Timeout"];
            412: components["responses"]["RecordChanged"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    replacePost: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: { id: components["parameters"]["Id"]; postId: components["parameters"]["PostId"]; };
        };
        requestBody: {
            content: { "application/json": components["schemas"]["PostReplacement"]; };
        };
        responses: {
            200: components["responses"]["Post"];
            400: components["responses"]["InvalidBody"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchRecord"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Unchangeable"];
            412: components["responses"]["RecordChanged"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedPut"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            428: components["responses"]["PreconditionRequired"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    deletePost: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: { id: components["parameters"]["Id"]; postId: components["parameters"]["PostId"]; };
        };
        responses: {
            204: components["responses"]["Deleted"];
            400: components["responses"]["InvalidId"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchRecord"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Referenced"];
            412: components["responses"]["RecordChanged"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            428: components["responses"]["PreconditionRequired"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    updatePost: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: { id: components["parameters"]["Id"]; postId: components["parameters"]["PostId"]; };
        };
        requestBody: {
            content: { "application/merge-patch+json": components["schemas"]["PostPatch"]; "application/json": components["schemas"]["PostPatch"]; };
        };
        responses: {
            200: components["responses"]["Post"];
            400: components["responses"]["InvalidBody"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NoSuchRecord"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Unchangeable"];
            412: components["responses"]["RecordChanged"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedPatch"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            428: components["responses"]["PreconditionRequired"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    listChanges: {
        parameters: {
            query?: {
                after?: components["parameters"]["After"];
                limit?: components["parameters"]["ChangeLimit"];
                type?: components["parameters"]["ChangeTypes"];
                user?: components["parameters"]["ChangeUser"];
            };
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "Last-Event-ID"?: components["parameters"]["LastEventId"];
            };
        };
        responses: {
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["FeedCache"];
                    Vary: components["headers"]["VaryAccept"];
                    Link: components["headers"]["NextLink"];
                    "X-Accel-Buffering": components["headers"]["AccelBuffering"];
                    [name: string]: unknown;
                };
                content: { "application/cloudevents-batch+json": components["schemas"]["ChangeEvent"][]; "text/event-stream": string; };
            };
            400: components["responses"]["InvalidQuery"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["TurnedOff"];
            408: components["responses"]["Timeout"];
            410: components["responses"]["Gone"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Late"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    getHealth: {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        responses: {
            200: {
                headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
                content: { "application/json": components["schemas"]["Health"]; };
            };
            400: components["responses"]["Malformed"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    getReadiness: {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        responses: {
            200: {
                headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
                content: { "application/json": components["schemas"]["Health"]; };
            };
            400: components["responses"]["Malformed"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["NotReady"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    getMetrics: {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        responses: {
            200: {
                headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
                content: { "text/plain": string; };
            };
            400: components["responses"]["Malformed"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    getInfo: {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        responses: {
            200: {
                headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
                content: { "application/json": components["schemas"]["Info"]; };
            };
            400: components["responses"]["Malformed"];
            404: components["responses"]["TurnedOff"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    echo: {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        requestBody: {
            content: { "application/json": components["schemas"]["AnyValue"]; };
        };
        responses: {
            200: {
                headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
                content: { "application/json": components["schemas"]["Echo"]; };
            };
            400: components["responses"]["InvalidJson"];
            404: components["responses"]["TurnedOff"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedPost"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    getSecret: {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        responses: {
            200: {
                headers: { "X-Request-Id": components["headers"]["RequestId"]; "Cache-Control": components["headers"]["NoStore"]; [name: string]: unknown; };
                content: { "application/json": components["schemas"]["Secret"]; };
            };
            400: components["responses"]["Malformed"];
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["TurnedOff"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    boom: {
        parameters: {
            header?: { "x-request-id"?: components["parameters"]["RequestId"]; traceparent?: components["parameters"]["Traceparent"]; };
        };
        responses: {
            400: components["responses"]["Malformed"];
            404: components["responses"]["TurnedOff"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["Unavailable"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    getConsole: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "If-Modified-Since"?: components["parameters"]["IfModifiedSince"];
                "If-Match"?: components["parameters"]["FileIfMatch"];
                "If-Unmodified-Since"?: components["parameters"]["IfUnmodifiedSince"];
                Range?: components["parameters"]["Range"];
                "If-Range"?: components["parameters"]["IfRange"];
            };
        };
        responses: {
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["FileCache"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["LastModified"];
                    "X-Content-Type-Options": components["headers"]["NoSniff"];
                    "Content-Security-Policy": components["headers"]["PagePolicy"];
                    Vary: components["headers"]["VaryEncoding"];
                    "Accept-Ranges": components["headers"]["AcceptRanges"];
                    "Content-Encoding": components["headers"]["ContentEncoding"];
                    Link: components["headers"]["DescriptionLink"];
                    [name: string]: unknown;
                };
                content: { "text/html": string; };
            };
            206: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["FileCache"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["LastModified"];
                    "X-Content-Type-Options": components["headers"]["NoSniff"];
                    "Content-Security-Policy": components["headers"]["PagePolicy"];
                    Vary: components["headers"]["VaryEncoding"];
                    "Accept-Ranges": components["headers"]["AcceptRanges"];
                    "Content-Encoding": components["headers"]["ContentEncoding"];
                    Link: components["headers"]["DescriptionLink"];
                    "Content-Range": components["headers"]["ContentRange"];
                    [name: string]: unknown;
                };
                content: { "text/html": string; };
            };
            304: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["FileCache"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["LastModified"];
                    "X-Content-Type-Options": components["headers"]["NoSniff"];
                    "Content-Security-Policy": components["headers"]["PagePolicy"];
                    Vary: components["headers"]["VaryEncoding"];
                    Link: components["headers"]["DescriptionLink"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Malformed"];
            404: components["responses"]["NoSuchFile"];
            408: components["responses"]["Timeout"];
            412: components["responses"]["FileChanged"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["RangeNotSatisfiable"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["NoFileDescriptor"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
    getFile: {
        parameters: {
            header?: {
                "x-request-id"?: components["parameters"]["RequestId"];
                traceparent?: components["parameters"]["Traceparent"];
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "If-Modified-Since"?: components["parameters"]["IfModifiedSince"];
                "If-Match"?: components["parameters"]["FileIfMatch"];
                "If-Unmodified-Since"?: components["parameters"]["IfUnmodifiedSince"];
                Range?: components["parameters"]["Range"];
                "If-Range"?: components["parameters"]["IfRange"];
            };
            path: { file: components["parameters"]["File"]; };
        };
        responses: {
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["FileCache"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["LastModified"];
                    "X-Content-Type-Options": components["headers"]["NoSniff"];
                    "Content-Security-Policy": components["headers"]["PagePolicy"];
                    Vary: components["headers"]["VaryEncoding"];
                    "Accept-Ranges": components["headers"]["AcceptRanges"];
                    "Content-Encoding": components["headers"]["ContentEncoding"];
                    [name: string]: unknown;
                };
                content: { "*/*": unknown; };
            };
            206: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["FileCache"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["LastModified"];
                    "X-Content-Type-Options": components["headers"]["NoSniff"];
                    "Content-Security-Policy": components["headers"]["PagePolicy"];
                    Vary: components["headers"]["VaryEncoding"];
                    "Accept-Ranges": components["headers"]["AcceptRanges"];
                    "Content-Encoding": components["headers"]["ContentEncoding"];
                    "Content-Range": components["headers"]["ContentRange"];
                    [name: string]: unknown;
                };
                content: { "*/*": unknown; };
            };
            304: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    "Cache-Control": components["headers"]["FileCache"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["LastModified"];
                    "X-Content-Type-Options": components["headers"]["NoSniff"];
                    "Content-Security-Policy": components["headers"]["PagePolicy"];
                    Vary: components["headers"]["VaryEncoding"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Malformed"];
            404: components["responses"]["NoSuchFile"];
            408: components["responses"]["Timeout"];
            412: components["responses"]["FileChanged"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["RangeNotSatisfiable"];
            417: components["responses"]["ExpectationFailed"];
            421: components["responses"]["Misdirected"];
            431: components["responses"]["HeadTooLarge"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotImplemented"];
            503: components["responses"]["NoFileDescriptor"];
            505: components["responses"]["VersionNotSupported"];
        };
    };
}
