import { z } from 'zod'
import { EmbeddingsRequest, EmbeddingsResponse } from '../../openai/embeddings.ts'
import { ChatRequest, CompletionRequest } from '../../openai/request.ts'
import { ChatAnswer, CompletionAnswer, Model, ModelList, StreamEvent } from '../../openai/responses.ts'
import { ResponsesRequest } from '../../openai/responses-api/request.ts'
import { DeletedResponse, ResponseEvent, ResponseObject } from '../../openai/responses-api/response.ts'
import { del, get, type Operations, post } from './operation.ts'

/** OpenAI's API, served by the bridge with models of its own. */
export const answerOperations = {
  chat: post('/v1/chat/completions', 'ask', 'An answer to a conversation, whole or streamed, as at OpenAI', {
    body: ChatRequest,
    response: ChatAnswer,
    event: StreamEvent,
    errors: 'openai',
  }),
  completion: post('/v1/completions', 'ask', 'Continuations of texts or token ids, whole or streamed, as at OpenAI', {
    body: CompletionRequest,
    response: CompletionAnswer,
    event: StreamEvent,
    errors: 'openai',
  }),
  responses: post('/v1/responses', 'ask', 'A response to a text or a conversation, whole or streamed, as at OpenAI', {
    body: ResponsesRequest,
    response: ResponseObject,
    event: ResponseEvent,
    errors: 'openai',
  }),
  embeddings: post('/v1/embeddings', 'ask', 'Embeddings of texts, as at OpenAI', {
    body: EmbeddingsRequest,
    response: EmbeddingsResponse,
    errors: 'openai',
  }),
  response: get('/v1/responses/:id', 'ask', 'A response that the bridge keeps for the caller', {
    query: z.object({ stream: z.string().optional().describe('Rejected, except false.') }),
    response: ResponseObject,
    errors: 'openai',
  }),
  deleteResponse: del('/v1/responses/:id', 'ask', 'Delete a response that the bridge keeps for the caller', {
    response: DeletedResponse,
    errors: 'openai',
  }),
  rest: get(
    '/v1/answers/:id/events',
    'ask',
    'The rest of a streamed answer whose connection was lost, after the event of the header Last-Event-ID',
    { event: StreamEvent, errors: 'openai' },
  ),
  models: get('/v1/models', 'ask', 'The models that the bridge answers with', { response: ModelList, errors: 'openai' }),
  model: get('/v1/models/:id', 'ask', 'One model', { response: Model, errors: 'openai' }),
} satisfies Operations
