import { BrimError } from '../../kit/base/errors.ts'
import type { Grammar, TokenConstraint } from './grammar.ts'
import { GrammarThread, tooComplex } from './grammar-thread.ts'
import type { Beginning, GrammarQuestion, GrammarReply } from './grammar-worker.ts'
import { checkKeywords } from './schema-keywords.ts'

/** Keeps answers of one model to grammars. */
export interface Grammars {
  /**
   * A grammar that is not known is compiled first, off the event loop.
   * @throws BrimError GRAMMAR_INVALID, GRAMMAR_TOO_COMPLEX, RUNTIME_FAILED
   */
  open(grammar: Grammar): Promise<TokenConstraint>
}

const maxGrammarBytes = 128 * 1_024
const maxCompileMs = 5_000
/** Of one question about an answer. It is never near, but on a machine that does much else. */
const maxMaskMs = 10_000
/** Of WebAssembly, in each of the two threads. */
const maxThreadBytes = 512 * 2 ** 20
/** Compiled grammars that are kept, and refusals. */
const maxKept = 64
/** The threads end after so long without an answer. */
const idleMs = 60_000

/**
 * @param folder of the tokenizer
 * @param eos ids that end answers
 */
export function createGrammars(folder: string, eos: readonly number[]): Grammars {
  return new CompiledGrammars(folder, eos)
}

const schemasIn = (grammar: Grammar): readonly { readonly schema: string; readonly strict: boolean }[] =>
  grammar.kind === 'schema'
    ? [grammar]
    : grammar.kind === 'calls'
      ? [...grammar.calls, ...(grammar.otherwise ? schemasIn(grammar.otherwise) : [])]
      : []

/** A compiled grammar in the thread, or what was wrong with it. */
interface Known {
  /** Of the thread in which it is. */
  readonly epoch: number
  readonly compiled: Promise<void>
  answers: number
}

/**
 * A grammar is compiled in a thread of its own first, which may end for it: hostile ones take time or memory without end, or abort the
 * library. Those that pass are compiled again in the thread that all answers ask, so that one client's grammar does not stop another's answer.
 */
class CompiledGrammars implements Grammars {
  readonly #trial: GrammarThread
  readonly #thread: GrammarThread
  readonly #hasEnd: boolean
  /** In the order of their last use. */
  readonly #known = new Map<string, Known>()
  #trials = Promise.resolve()
  #answers = 0
  #open = 0
  #idle: NodeJS.Timeout | undefined

  constructor(folder: string, eos: readonly number[]) {
    const data = { folder, eos, maxBytes: maxThreadBytes }
    this.#hasEnd = eos.length > 0
    this.#trial = new GrammarThread(data)
    this.#thread = new GrammarThread(data)
  }

  async open(grammar: Grammar): Promise<TokenConstraint> {
    const key = JSON.stringify(grammar)
    if (Buffer.byteLength(key) > maxGrammarBytes) throw tooComplex(`it has more than ${maxGrammarBytes / 1_024} KiB`)
    if (!this.#hasEnd)
      throw new BrimError('GRAMMAR_INVALID', 'the model has no end-of-text token, so that no grammar can end its answers', {
        hint: 'build the bundle with the generation_config.json of its checkpoint',
      })
    for (const { schema, strict } of schemasIn(grammar)) if (strict) checkKeywords(JSON.parse(schema))
    clearTimeout(this.#idle)
    this.#open += 1
    const known = this.#find(key)
    known.answers += 1
    const answer = ++this.#answers
    const release = () => {
      this.#thread.tell({ kind: 'close', answer })
      known.answers -= 1
      this.#open -= 1
      if (this.#open === 0) this.#idle = setTimeout(() => this.#stop(), idleMs).unref()
    }
    try {
      await known.compiled
      await this.#thread.ask({ kind: 'open', key, answer }, maxMaskMs)
    } catch (error) {
      release()
      throw error
    }
    return new AnswerConstraint(this.#thread, answer, release)
  }

  #find(key: string): Known {
    const before = this.#known.get(key)
    this.#known.delete(key)
    const known =
      before && before.epoch === this.#thread.epoch
        ? before
        : { epoch: this.#thread.epoch, compiled: this.#compile(key), answers: 0 }
    this.#known.set(key, known)
    this.#forgetOldest()
    return known
  }

  #compile(key: string): Promise<void> {
    const compiled = this.#trials.then(async () => {
      await this.#trial.ask({ kind: 'compile', key, isTrial: true }, maxCompileMs)
      await this.#thread.ask({ kind: 'compile', key, isTrial: false }, maxMaskMs)
    })
    this.#trials = compiled.catch(() => {})
    return compiled
  }

  #forgetOldest(): void {
    for (const [key, { answers }] of this.#known) {
      if (this.#known.size <= maxKept) return
      if (answers > 0) continue
      this.#known.delete(key)
      this.#thread.tell({ kind: 'forget', key })
    }
  }

  #stop(): void {
    const error = new BrimError('CANCELED', 'the thread was not used')
    this.#trial.stop(error)
    this.#thread.stop(error)
    this.#known.clear()
  }
}

/** One answer. The thread knows the beginning that it was asked for last, and is told what is new. */
class AnswerConstraint implements TokenConstraint {
  readonly #thread: GrammarThread
  readonly #answer: number
  readonly #epoch: number
  readonly #onRelease: () => void
  #last: readonly number[] = []
  #isReleased = false

  constructor(thread: GrammarThread, answer: number, onRelease: () => void) {
    this.#thread = thread
    this.#answer = answer
    this.#epoch = thread.epoch
    this.#onRelease = onRelease
  }

  async after(beginnings: readonly (readonly number[])[]): Promise<readonly (Int32Array | undefined)[]> {
    const reply = await this.#ask({
      kind: 'masks',
      answer: this.#answer,
      beginnings: beginnings.map((ids) => this.#beginning(ids)),
    })
    return 'masks' in reply ? reply.masks : []
  }

  async forcedAfter(beginning: readonly number[]): Promise<readonly number[]> {
    const reply = await this.#ask({ kind: 'forced', answer: this.#answer, beginning: this.#beginning(beginning) })
    return 'forced' in reply ? reply.forced : []
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#onRelease()
  }

  #ask(question: GrammarQuestion): Promise<GrammarReply> {
    if (this.#thread.epoch !== this.#epoch)
      throw new BrimError('RUNTIME_FAILED', 'the thread that checks grammars has ended during the answer', { hint: 'ask again' })
    return this.#thread.ask(question, maxMaskMs)
  }

  #beginning(ids: readonly number[]): Beginning {
    let keep = 0
    while (keep < ids.length && ids[keep] === this.#last[keep]) keep++
    this.#last = [...ids]
    return { keep, tokens: ids.slice(keep) }
  }
}
