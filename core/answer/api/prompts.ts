import { FieldError } from '../../wire/openai/api-error.ts'
import type { ChatRequest, CompletionRequest } from '../../wire/openai/request.ts'
import { bitsPerId, unpackIds } from '../../wire/protocol/token-ids.ts'
import type { Endpoint } from '../endpoint/endpoint.ts'
import { Prompt } from '../endpoint/prompt.ts'
import type { Answered } from '../endpoint/text-model.ts'
import type { Tools } from '../endpoint/tools.ts'

/** A prompt, and the beginning of its answer where the request has one. */
export interface AskedPrompt {
  readonly prompt: Prompt
  readonly answered?: Answered
}

const lastMessage = 'continue_final_message'

/** @throws FieldError REQUEST_INVALID */
export function conversationOf(request: ChatRequest, tools: Tools | undefined): AskedPrompt {
  const { messages, continue_final_message, add_generation_prompt } = request
  if (!continue_final_message) {
    if (add_generation_prompt === false) throw invalid('add_generation_prompt', `false needs "${lastMessage}": true`)
    return { prompt: new Prompt({ kind: 'chat', messages, ...(tools && { tools: request.tools! }) }) }
  }
  if (add_generation_prompt) throw invalid('add_generation_prompt', `must be false where "${lastMessage}" is true`)
  const before = messages.slice(0, -1)
  const last = messages.at(-1)
  if (last?.role !== 'assistant' || !last.content || before.length === 0)
    throw invalid(lastMessage, 'needs a last message of the role assistant, with a text, after other messages')
  if (tools) throw invalid(lastMessage, 'excludes "tools"')
  return { prompt: new Prompt({ kind: 'chat', messages: before }), answered: { text: last.content } }
}

/** @returns the prompts, and all their text. @throws FieldError REQUEST_INVALID */
export function textsOf(request: CompletionRequest, { model }: Endpoint): { prompts: readonly AskedPrompt[]; text: string } {
  const given = promptsIn(request, model)
  const answered = request.brim?.answered ?? 0
  if (answered > 0) return { prompts: [begunAnswer(given, answered, model)], text: '' }
  const prompts = given.map((prompt) => {
    if (typeof prompt === 'string') return { prompt: new Prompt({ kind: 'text', text: prompt }) }
    return { prompt: new Prompt({ kind: 'ids', tokens: { model: idsModel(model, 'prompt'), ids: prompt } }) }
  })
  return { prompts, text: given.filter((prompt) => typeof prompt === 'string').join('') }
}

type Given = string | readonly number[]

function promptsIn({ prompt, brim }: CompletionRequest, model: Endpoint['model']): readonly Given[] {
  const packed = brim?.prompt_ids ?? undefined
  if (prompt != null && packed !== undefined) throw invalid(packedField, 'takes the place of "prompt": send one of them')
  if (packed !== undefined) return [unpacked(packed, model)]
  if (prompt == null) throw invalid('prompt', 'is missing')
  const isOne = typeof prompt === 'string' || typeof prompt[0] === 'number'
  return (isOne ? [prompt] : prompt) as readonly Given[]
}

const packedField = 'brim.prompt_ids'

function unpacked(packed: string, model: Endpoint['model']): readonly number[] {
  const { vocab } = idsModel(model, packedField).dims
  const ids = unpackIds(packed, vocab)
  if (ids) return ids
  throw invalid(packedField, `must be token ids of ${bitsPerId(vocab)} bits each, below ${vocab}, as base64`)
}

/** @param answered tokens at the end of the prompt that belong to the answer */
function begunAnswer(prompts: readonly Given[], answered: number, model: Endpoint['model']): AskedPrompt {
  const [ids, ...others] = prompts
  const field = 'brim.answered'
  if (ids === undefined || typeof ids === 'string' || others.length > 0) throw invalid(field, 'needs one prompt, as token ids')
  if (answered >= ids.length) throw invalid(field, `leaves no prompt: there are ${ids.length} token ids`)
  const own = idsModel(model, 'prompt')
  const prompt = new Prompt({ kind: 'ids', tokens: { model: own, ids: ids.slice(0, -answered) } })
  return { prompt, answered: { model: own, ids: ids.slice(-answered) } }
}

function idsModel(model: Endpoint['model'], field: string) {
  if (model.tokenizer) return model
  throw new FieldError('REQUEST_INVALID', field, `${model.name} runs on another server, and takes text`, 'send a text')
}

const invalid = (field: string, what: string) => new FieldError('REQUEST_INVALID', field, `"${field}" ${what}`)
