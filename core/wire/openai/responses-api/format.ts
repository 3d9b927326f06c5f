import { toErrorBody } from '../api-error.ts'
import type { FinishReason, ResponseFormat, ResponseSummary } from '../response-formats.ts'
import { type OutputEvent, ResponseOutput } from './output.ts'
import type { ResponseEcho, ResponseObject } from './response.ts'

/**
 * The response to one request of the Responses API.
 * @param onEnd receives it once it is complete, whole or as the last event of a stream
 */
export const responsesFormat = (echo: ResponseEcho, onEnd: (response: ResponseObject) => void): ResponseFormat => ({
  idPrefix: 'resp_',
  isTyped: true,
  open(head) {
    const output = new ResponseOutput(head)
    let finishReason: FinishReason = 'stop'
    let events = 0
    const numbered = (list: readonly OutputEvent[]) =>
      list.map(({ type, ...event }) => ({ type, sequence_number: events++, ...event }))
    const response = (status: ResponseObject['status'], fields: Partial<ResponseObject> = {}): ResponseObject => ({
      id: head.id,
      object: 'response',
      created_at: head.created,
      status,
      model: head.model,
      output: [...output.items],
      usage: null,
      error: null,
      incomplete_details: null,
      ...echo,
      ...fields,
    })
    function complete(summary: ResponseSummary): ResponseObject {
      const isCut = finishReason === 'length'
      const made = response(isCut ? 'incomplete' : 'completed', {
        usage: usageOf(summary, output.reasoningTokens),
        ...(isCut && { incomplete_details: { reason: 'max_output_tokens' } }),
        ...(summary.brim && { brim: { ...summary.brim } }),
      })
      onEnd(made)
      return made
    }
    const endOutput = (reason: FinishReason) => {
      finishReason = reason
      return output.end(reason === 'length' ? 'incomplete' : 'completed')
    }
    return {
      first: () =>
        numbered([
          { type: 'response.created', response: response('in_progress') },
          { type: 'response.in_progress', response: response('in_progress') },
        ]),
      text: (_, piece) => numbered(output.push(piece)),
      end: (_, reason) => numbered(endOutput(reason)),
      last(summary) {
        const made = complete(summary)
        return numbered([{ type: `response.${made.status}`, response: made }])
      },
      failed(thrown) {
        const { error } = toErrorBody(thrown)
        return numbered([{ type: 'response.failed', response: response('failed', { error }) }])[0]!
      },
      whole([choice], summary) {
        endOutput(choice!.finishReason)
        return complete(summary)
      },
    }
  },
})

const usageOf = ({ usage, cachedTokens }: ResponseSummary, reasoningTokens: number): ResponseObject['usage'] => ({
  input_tokens: usage.prompt_tokens,
  input_tokens_details: { cached_tokens: Math.min(cachedTokens, usage.prompt_tokens) },
  output_tokens: usage.completion_tokens,
  output_tokens_details: { reasoning_tokens: reasoningTokens },
  total_tokens: usage.total_tokens,
})
