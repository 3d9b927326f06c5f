import { BrimError } from '../../kit/base/errors.ts'
import type { ChatMessage } from '../../model/text/chat-message.ts'
import { FieldError } from '../../wire/openai/api-error.ts'
import { type ChatRequest, ignoredFields, parseRequest } from '../../wire/openai/request.ts'
import type { ResponseFormat } from '../../wire/openai/response-formats.ts'
import { withInstructions, withItems } from '../../wire/openai/responses-api/conversation.ts'
import { responsesFormat } from '../../wire/openai/responses-api/format.ts'
import type { InputItem } from '../../wire/openai/responses-api/input-items.ts'
import { ResponsesRequest, unsupportedInResponses } from '../../wire/openai/responses-api/request.ts'
import type { ResponseEcho, ResponseObject } from '../../wire/openai/responses-api/response.ts'
import type { KeptResponses } from './kept-responses.ts'
import { type ApiRequest, clientName, conversationRequest, maxIgnored, type RequestOrigin, requireCount } from './request.ts'
import type { Served } from './served.ts'

/** A request for an answer, and how it is sent. */
export interface ReadRequest {
  readonly request: ApiRequest
  readonly format: ResponseFormat
}

/**
 * A request of the Responses API in the words of a chat request. Its response is kept unless `store` is false.
 * @throws FieldError REQUEST_INVALID, MODEL_UNKNOWN, CHAT_TEMPLATE_INVALID naming the field; BrimError MODEL_MISSING
 */
export function readResponsesRequest(body: unknown, served: Served, origin: RequestOrigin, kept: KeptResponses): ReadRequest {
  requireCount('input', body)
  const request = parseRequest(ResponsesRequest, body, unsupportedInResponses)
  const client = clientName(origin.client)
  const conversation = withItems(previousOf(request, client, kept), itemsOf(request, client, kept))
  const { instructions } = request
  const messages = instructions == null ? conversation : withInstructions(instructions, conversation)
  const { include, top_logprobs } = request
  const hasLogprobs = include?.includes(logprobsName) ?? false
  if (top_logprobs && !hasLogprobs)
    throw new FieldError('REQUEST_INVALID', 'top_logprobs', `"top_logprobs" needs "include": ["${logprobsName}"]`)
  const asked = conversationRequest(
    chatRequestOf(request, messages, hasLogprobs),
    { messages: 'input', format: 'text.format' },
    served,
    origin,
    ignoredOf(request, body),
  )
  const keep = (response: ResponseObject) => {
    if (request.store !== false) kept.keep(client, { response, conversation: withItems(conversation, response.output) })
  }
  return { request: asked, format: responsesFormat(echoOf(request), keep) }
}

/** @param stream of the query. @throws BrimError ANSWER_UNKNOWN; FieldError REQUEST_INVALID for a stream */
export function keptResponse(kept: KeptResponses, client: string, id: string, stream = 'false'): ResponseObject {
  if (stream !== 'false')
    throw new FieldError('REQUEST_INVALID', 'stream', '"stream": a kept response is sent whole', 'leave out "stream"')
  const found = kept.find(clientName(client), id)
  if (found) return found.response
  throw unknownResponse(id)
}

/** @throws BrimError ANSWER_UNKNOWN */
export function deleteResponse(kept: KeptResponses, client: string, id: string) {
  if (!kept.delete(clientName(client), id)) throw unknownResponse(id)
  return { id, object: 'response' as const, deleted: true as const }
}

const unknownResponse = (id: string) =>
  new BrimError('ANSWER_UNKNOWN', `there is no response "${id}"`, {
    hint: 'responses are kept for an hour in the memory of this server, each for the key that asked',
  })

const logprobsName = 'message.output_text.logprobs'

function previousOf({ previous_response_id: id }: ResponsesRequest, client: string, kept: KeptResponses): readonly ChatMessage[] {
  if (id == null) return []
  const found = kept.find(client, id)
  if (found) return found.conversation
  throw new FieldError('REQUEST_INVALID', 'previous_response_id', `"previous_response_id": there is no response "${id}"`, sendAll)
}

const sendAll = 'send the whole conversation as "input": responses are kept for an hour in memory, unless "store" is false'

type Item = Exclude<InputItem, { type: 'item_reference' }>

function itemsOf({ input }: ResponsesRequest, client: string, kept: KeptResponses): readonly Item[] {
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }]
  return input.map((item, at) => {
    if (item.type !== 'item_reference') return item
    const found = kept.findItem(client, item.id)
    if (found) return found
    throw new FieldError('REQUEST_INVALID', `input.${at}.id`, `"input.${at}.id": there is no item "${item.id}"`, sendAll)
  })
}

function chatRequestOf(request: ResponsesRequest, messages: readonly ChatMessage[], hasLogprobs: boolean): ChatRequest {
  const { text, tools, tool_choice: choice, max_output_tokens, top_logprobs, input: _, ...shared } = request
  const format = text?.format
  return {
    ...shared,
    messages: [...messages],
    max_completion_tokens: max_output_tokens,
    ...(hasLogprobs && { logprobs: true, top_logprobs }),
    ...(format?.type === 'json_schema'
      ? { response_format: { type: 'json_schema', json_schema: format } }
      : { response_format: format }),
    tools: tools?.map(({ type, ...named }) => ({ type, function: named })),
    tool_choice: typeof choice === 'object' && choice ? { type: 'function', function: { name: choice.name } } : choice,
  }
}

function ignoredOf({ include }: ResponsesRequest, body: unknown): readonly string[] {
  const ignored = ignoredFields(ResponsesRequest, body, maxIgnored, unsupportedInResponses)
  const without = (include ?? []).filter((name) => name !== logprobsName).map((name) => `include.${name}`)
  return [...ignored, ...without].slice(0, maxIgnored)
}

const echoOf = (request: ResponsesRequest): ResponseEcho => ({
  instructions: request.instructions ?? null,
  previous_response_id: request.previous_response_id ?? null,
  max_output_tokens: request.max_output_tokens ?? null,
  temperature: request.temperature ?? 1,
  top_p: request.top_p ?? 1,
  top_logprobs: request.top_logprobs ?? 0,
  text: { format: request.text?.format ?? { type: 'text' } },
  tools: [...(request.tools ?? [])],
  tool_choice: request.tool_choice ?? 'auto',
  parallel_tool_calls: request.parallel_tool_calls ?? true,
  metadata: request.metadata ?? {},
  store: request.store ?? true,
  background: false,
  truncation: 'disabled',
})
