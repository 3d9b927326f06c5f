import { parentPort, workerData } from 'node:worker_threads'
import { BrimError, type ErrorCode } from '../../kit/base/errors.ts'
import { loadChatTemplate } from './chat-template.ts'
import { encodePrompt, type PromptText, renderPrompt } from './prompt-text.ts'
import { loadTokenizer } from './tokenizer.ts'

/** What the thread works for: the model in this folder. */
export interface WorkerModel {
  readonly name: string
  readonly folder: string
  readonly contextLimit: number
}

export interface PromptTask {
  /** 'render': only check that the chat template accepts the prompt. */
  readonly kind: 'encode' | 'render'
  /** JSON of a PromptText, which is cheaper to send than objects. */
  readonly prompt: string
}

export type PromptResult =
  | { readonly ids: Uint32Array }
  | { readonly error: { readonly code: ErrorCode; readonly message: string; readonly hint: string | undefined } }

// This file is the entry of a worker thread: it tokenises one prompt after the other for core/model/text/prompt-thread.ts.
const port = parentPort!
const { name, folder, contextLimit } = workerData as WorkerModel
const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(folder), loadChatTemplate(folder)])
const reader = { name, tokenizer, chatTemplate, contextLimit }

port.on('message', ({ kind, prompt }: PromptTask) => {
  const result = perform(kind, JSON.parse(prompt) as PromptText)
  port.postMessage(result, 'ids' in result ? [result.ids.buffer as ArrayBuffer] : [])
})

function perform(kind: PromptTask['kind'], prompt: PromptText): PromptResult {
  try {
    if (kind === 'encode') return { ids: Uint32Array.from(encodePrompt(prompt, reader)) }
    renderPrompt(prompt, reader)
    return { ids: new Uint32Array(0) }
  } catch (error) {
    if (!(error instanceof BrimError)) throw error
    const { code, message, hint } = error
    return { error: { code, message, hint } }
  }
}
