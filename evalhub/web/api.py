"""The published schemas: what each document of the wire must look like."""

from types import MappingProxyType

from django.http import JsonResponse
from django.urls import reverse
from pydantic import BaseModel
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol import messages, notices, plan, policy, records, segments, suite
from evalhub.web.errors import NotFoundError

DOCUMENTS: MappingProxyType[str, type[BaseModel]] = MappingProxyType(
    {
        "environment": records.LaneEnvironment,
        "failure": records.Failure,
        "judge-line": records.JudgeLine,
        "lane-map": suite.LaneMap,
        "notice": notices.Notice,
        "plan": plan.Plan,
        "policy": policy.Policy,
        "preflight": records.Preflight,
        "probe-line": records.ProbeLine,
        "problem": messages.Problem,
        "receipt": segments.Receipt,
        "redactions": records.Redactions,
        "result": records.Result,
        "segment": segments.SegmentHeader,
        "suite": suite.Suite,
        "turn": records.Turn,
    }
)
"""By the name in the address. Bodies of requests and answers are in the API's own description."""


class SchemasEndpoint(APIView):
    """`GET /api/v1/schema/`: the addresses of all schemas; anybody may read them."""

    authentication_classes: list[type[BaseAuthentication]] = []
    permission_classes = [AllowAny]

    def get(self, request: Request) -> Response:
        addresses = {
            name: request.build_absolute_uri(reverse("api-schema", args=[name]))
            for name in DOCUMENTS
        }
        return Response({"schemas": addresses})


class SchemaEndpoint(APIView):
    """`GET /api/v1/schema/<document>.json`: the JSON Schema of a document; anybody may read it."""

    authentication_classes: list[type[BaseAuthentication]] = []
    permission_classes = [AllowAny]

    def get(self, request: Request, document: str) -> JsonResponse:
        model = DOCUMENTS.get(document)
        if model is None:
            raise NotFoundError(
                f"There is no schema {document!r}; there are {', '.join(DOCUMENTS)}."
            )
        return JsonResponse(
            model.model_json_schema(),
            content_type="application/schema+json",
            json_dumps_params={"indent": 2},
            headers={"Cache-Control": "public, max-age=300"},
        )
