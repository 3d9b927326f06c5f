import type { z } from 'zod'
import type { AnswerMode } from '../../core/kit/base/answer-modes.ts'
import { type AnswerTransport, followAnswer, restPath } from '../../core/wire/openai/follow-answer.ts'
import type { RecordedEvent } from '../../core/wire/openai/recorded-answer.ts'
import type { ModelList } from '../../core/wire/openai/responses.ts'
import { bodyBytes, errorText, type PageApi, pause, RequestFailed } from './api.ts'
import { ViewModel } from './model.ts'
import { answerText, askedTurn, type Turn, turnAfter } from './turn.ts'

type Models = z.infer<typeof ModelList>

export interface ChatSettings {
  readonly mode: AnswerMode | ''
  readonly maxTokens: number
  /** Tokens per second that the reader takes; undefined: it has not said. */
  readonly tokensPerS: number | undefined
}

/** One conversation with the models of this server, in memory only. */
export class ChatModel extends ViewModel {
  readonly #api: PageApi
  turns: readonly Turn[] = []
  settings: ChatSettings = { mode: '', maxTokens: 256, tokensPerS: undefined }
  card: Models['data'][number] | undefined
  problem: string | undefined
  #stop: AbortController | undefined

  constructor(api: PageApi) {
    super()
    this.#api = api
  }

  get isAnswering(): boolean {
    return this.#stop !== undefined
  }

  /** Learns which modes the server can answer in now. */
  async readModes(): Promise<void> {
    try {
      const { data } = await this.#api.get<Models>('/v1/models')
      this.card = data.find(({ brim }) => brim.modes.length > 0) ?? data[0]
      this.problem = undefined
    } catch (error) {
      this.problem = errorText(error)
    }
    this.changed()
  }

  choose(settings: Partial<ChatSettings>): void {
    this.settings = { ...this.settings, ...settings }
    this.changed()
  }

  clear(): void {
    this.stop()
    this.turns = []
    this.changed()
  }

  stop(): void {
    this.#stop?.abort()
  }

  async ask(question: string): Promise<void> {
    const { mode, maxTokens, tokensPerS } = this.settings
    const answered = this.turns.filter((turn) => answerText(turn) !== '')
    const messages = [
      ...answered.flatMap((turn) => [
        { role: 'user', content: turn.question },
        { role: 'assistant', content: answerText(turn) },
      ]),
      { role: 'user', content: question },
    ]
    const isAgent = this.#api.server === 'agent'
    // Each event then says how many tokens it brings. In other modes a server that tells none could not take part.
    const countsTokens = isAgent && (mode === 'private' || mode === 'local')
    const body = {
      messages,
      max_tokens: maxTokens,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
      return_token_ids: countsTokens || undefined,
      brim: { mode: mode || undefined, tokens_per_s: tokensPerS, explain: isAgent || undefined },
    }
    const stopping = new AbortController()
    this.#stop = stopping
    const at = this.turns.length
    const startedMs = performance.now()
    const sinceMs = () => performance.now() - startedMs
    const update = (change: (turn: Turn) => Turn) => {
      this.turns = this.turns.map((turn, index) => (index === at ? change(turn) : turn))
      this.changed()
    }
    const happened = (event: RecordedEvent) => update((turn) => turnAfter(turn, event))
    this.turns = [...this.turns, askedTurn({ question, mode, tokensPerS })]
    this.changed()
    try {
      const { report, usage } = await followAnswer(this.#transport(body, stopping.signal), stopping.signal, {
        onText: (text, tokens) => happened({ event: 'text', atMs: sinceMs(), text, tokens }),
        onSketch: (lines) => happened({ event: 'sketch', atMs: sinceMs(), lines: [...lines] }),
        onNotice: (text) => happened({ event: 'notice', atMs: sinceMs(), text }),
      })
      happened({ event: 'complete', atMs: sinceMs(), report, usage })
    } catch (error) {
      const endMs = sinceMs()
      if (stopping.signal.aborted) update((turn) => ({ ...turn, state: 'stopped', endMs }))
      else happened({ event: 'failed', atMs: endMs, message: errorText(error) })
    } finally {
      this.#stop = undefined
      this.changed()
    }
  }

  #transport(body: object, signal: AbortSignal): AnswerTransport {
    const read = async (path: string, init: RequestInit) => bodyBytes(await this.#api.send(path, { ...init, signal }), signal)
    return {
      ask: () => read('/v1/chat/completions', { method: 'POST', body: JSON.stringify(body) }),
      rest: (after) => read(restPath(after), { headers: { 'last-event-id': after, accept: 'text/event-stream' } }),
      // From our own server: what the reader takes of an event is there.
      parse: (data) => ({ choices: [], ...(JSON.parse(data) as object) }),
      failureOf: (reported) =>
        reported === 'ended early'
          ? new RequestFailed(0, { message: 'the answer ended early' })
          : new RequestFailed(500, { message: reported.message, code: reported.code ?? '', hint: reported.hint ?? undefined }),
      brokenBy: (cause) => cause,
      isPassing: (error) => error instanceof RequestFailed && (error.status === 0 || error.code === 'CANCELED'),
      nowMs: () => performance.now(),
      sleep: (ms) => pause(ms, signal),
    }
  }
}
