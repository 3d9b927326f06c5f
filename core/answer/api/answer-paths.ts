import { chatFormat, completionFormat, type ResponseFormat } from '../../wire/openai/response-formats.ts'
import type { KeptResponses } from './kept-responses.ts'
import { type ReadRequest, readResponsesRequest } from './read-responses.ts'
import { type RequestOrigin, readChatRequest, readCompletionRequest } from './request.ts'
import type { Served } from './served.ts'

/** One of OpenAI's ways to ask for answers. */
export interface AnswerPath {
  readonly path: '/v1/chat/completions' | '/v1/completions' | '/v1/responses'
  read(body: unknown, served: Served, origin: RequestOrigin): ReadRequest
}

/** Of those whose responses have the same form whatever their requests are. */
export const answerFormats: Readonly<Partial<Record<string, ResponseFormat>>> = {
  '/v1/chat/completions': chatFormat,
  '/v1/completions': completionFormat,
}

/** @param kept responses that requests may refer to */
export const answerPaths = (kept: KeptResponses): readonly AnswerPath[] => [
  { path: '/v1/chat/completions', read: (...asked) => ({ request: readChatRequest(...asked), format: chatFormat }) },
  { path: '/v1/completions', read: (...asked) => ({ request: readCompletionRequest(...asked), format: completionFormat }) },
  { path: '/v1/responses', read: (...asked) => readResponsesRequest(...asked, kept) },
]
