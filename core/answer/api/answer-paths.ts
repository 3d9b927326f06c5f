import { chatFormat, completionFormat } from '../../wire/openai/responses.ts'
import { readChatRequest, readCompletionRequest } from './request.ts'

/** OpenAI's two ways to ask for answers. */
export const answerPaths = [
  { path: '/v1/chat/completions', read: readChatRequest, format: chatFormat },
  { path: '/v1/completions', read: readCompletionRequest, format: completionFormat },
] as const
