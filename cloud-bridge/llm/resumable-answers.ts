import type { AskedPrompt } from '../../core/answer/api/prompts.ts'
import type { ApiRequest } from '../../core/answer/api/request.ts'
import type { ResumableStream } from '../../core/answer/api/serve-answer.ts'
import { type AnswerRequest, isTokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import type { ResponseHead } from '../../core/wire/openai/response-formats.ts'
import { AnswerJournal, type AnswerJournalOptions } from './answer-journal.ts'
import type { AnswerLog, JournalledPrompt, ResumableEndpoint } from './journalled-endpoint.ts'

/** A request as JSON. */
interface JournalledRequest extends Pick<ApiRequest, 'includeUsage' | 'tokenIds' | 'returnTokenIds' | 'tokensAsIds'> {
  /** Of the API's two ways to ask. */
  readonly path: string
  readonly head: ResponseHead
  readonly prompt: JournalledPrompt
  readonly answer: Omit<AnswerRequest, 'prompt' | 'answered'>
}

/** A streamed answer on its way to a client. */
export interface ResumableAnswer {
  readonly path: string
  readonly request: ApiRequest
  readonly stream: ResumableStream
}

/** A connection that carries an answer. */
export interface AnswerConnection {
  /** Ends it because the client has opened another one. */
  destroy(): void
  send(answer: ResumableAnswer): Promise<void>
}

/** A model whose answers can be resumed: its own, or the sketched ones. */
export interface ResumableModel {
  /** `upstream:` and its name, where it runs there. */
  readonly modelId: string
  readonly endpoint: ResumableEndpoint
}

const expireEveryMs = 1_000

/**
 * Streamed answers that their clients can continue after a lost connection or a restart of the bridge. While no client is
 * connected, nothing is computed: a continuation begins with the records of the journal. The KV of tokens comes from the prefix
 * cache or from files, or is computed again; of a sketch, devices expand what is missing.
 */
export class ResumableAnswers {
  readonly #journal: AnswerJournal<JournalledRequest>
  readonly #models: readonly ResumableModel[]
  readonly #stopExpiry: () => Promise<void>
  /** Answers on a connection. */
  readonly #live = new Map<string, { destroy(): void; readonly ended: Promise<void> }>()

  /** @param models that make the answers. @throws BrimError STORE_FAILED */
  constructor(models: readonly ResumableModel[], options: Omit<AnswerJournalOptions, 'modelIds'>) {
    this.#models = models
    this.#journal = new AnswerJournal({ ...options, modelIds: models.map(({ modelId }) => modelId) })
    this.#stopExpiry = repeatEvery(options.clock, expireEveryMs, () => this.#journal.expire())
  }

  /** Whether the answer to a request can be resumed: one answer, streamed, of an endpoint that can. */
  accepts({ endpoint, stream, answers }: ApiRequest): boolean {
    return stream && answers.length === 1 && this.#models.some((each) => each.endpoint === endpoint)
  }

  /** @param client the answer is resumed for no other one */
  async serve(
    path: string,
    request: ApiRequest,
    head: ResponseHead,
    client: string,
    connection: AnswerConnection,
  ): Promise<void> {
    const { includeUsage, tokenIds, returnTokenIds, tokensAsIds } = request
    const { prompt: _, answered: __, ...answer } = request.answers[0]!
    const { id } = head
    const own = this.#models.find(({ endpoint }) => endpoint === request.endpoint)
    if (!own) throw new Error('the endpoint of the request makes no answers that can be resumed')
    const options = { includeUsage, tokenIds, returnTokenIds, tokensAsIds }
    const endpoint = own.endpoint.logged(
      this.#logOf(id, [], (prompt) => this.#journal.begin(id, client, own.modelId, { path, head, ...options, prompt, answer })),
    )
    await this.#send({ path, request: { ...request, endpoint }, stream: { head, after: undefined } }, connection)
  }

  /**
   * Sends the rest of an answer. An older connection that still carries it is ended.
   * @param after tokens whose text the client has; undefined: none
   * @throws BrimError ANSWER_UNKNOWN
   */
  async resume(id: string, client: string, after: number | undefined, connection: AnswerConnection): Promise<void> {
    if (!this.#journal.resume(id, client)) throw unknownAnswer(id)
    for (let older = this.#live.get(id); older; older = this.#live.get(id)) {
      older.destroy()
      await older.ended
    }
    const entry = this.#journal.resume(id, client)
    if (!entry) throw unknownAnswer(id)
    const { path, head, prompt: written, answer, ...options } = entry.request
    const found = this.#restore(entry.modelId, written)
    // A model that the bridge has no more.
    if (!found) throw unknownAnswer(id)
    const endpoint = found.endpoint.logged(this.#logOf(id, entry.records))
    const answers = [{ ...answer, ...found.asked }]
    const request = { model: head.model, endpoint, answers, stream: true, ignored: [], ...options }
    await this.#send({ path, request, stream: { head, after } }, connection)
  }

  /** Answers that are under way can be resumed after the next start. */
  async close(): Promise<void> {
    await this.#stopExpiry()
    this.#journal.close()
  }

  #logOf(id: string, written: readonly object[], begin: AnswerLog['begin'] = () => {}): AnswerLog {
    let at = written.length
    return { id, written, begin, append: (record) => this.#journal.append(id, at++, record) }
  }

  #restore(modelId: string, written: JournalledPrompt) {
    for (const { endpoint } of this.#models.filter((each) => each.modelId === modelId)) {
      const ownModel = isTokenEndpoint(endpoint) ? endpoint.model : undefined
      if ('ids' in written && ownModel) return { endpoint, asked: askedIn(written, ownModel) }
      if ('messages' in written && !ownModel)
        return { endpoint, asked: { prompt: new Prompt({ kind: 'chat', messages: written.messages }) } }
    }
    return undefined
  }

  async #send(answer: ResumableAnswer, connection: AnswerConnection): Promise<void> {
    const { id } = answer.stream.head
    let onEnded = () => {}
    const ended = new Promise<void>((resolve) => {
      onEnded = resolve
    })
    this.#live.set(id, { destroy: () => connection.destroy(), ended })
    try {
      await connection.send(answer)
    } finally {
      this.#journal.detach(id)
      this.#live.delete(id)
      onEnded()
    }
  }
}

function askedIn({ ids, answered = [] }: Extract<JournalledPrompt, { ids: unknown }>, model: TextModel): AskedPrompt {
  const prompt = new Prompt({ kind: 'ids', tokens: { model, ids } })
  return answered.length === 0 ? { prompt } : { prompt, answered: { model, ids: answered } }
}

const unknownAnswer = (id: string) =>
  new BrimError('ANSWER_UNKNOWN', `there is no answer "${id}" to continue`, {
    hint: 'its connection ended too long ago, or it belongs to another key: ask again',
  })
