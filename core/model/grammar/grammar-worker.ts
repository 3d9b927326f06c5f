import { parentPort, workerData } from 'node:worker_threads'
import { byteLevelText } from '../text/token-decoder.ts'
import { loadTokenizer, type TextTokenizer } from '../text/tokenizer.ts'
import { allowsToken, type FormGrammar, type Grammar, onlyToken } from './grammar.ts'
import { type CompiledGrammar, type GrammarCompiler, type GrammarMatcher, loadXgrammar } from './xgrammar.ts'

/** What the thread works for. */
export interface GrammarWorkerData {
  /** Of the tokenizer. */
  readonly folder: string
  /** Ids that end the answer. */
  readonly eos: readonly number[]
  readonly maxBytes: number
}

/** A beginning of an answer: the first `keep` tokens of the one before, and those that follow. */
export interface Beginning {
  readonly keep: number
  readonly tokens: readonly number[]
}

export type GrammarQuestion =
  /** `isTrial`: it is also tried whether it is fast enough, and refused if a part of a strict schema is ignored. */
  | { readonly kind: 'compile'; readonly key: string; readonly isTrial: boolean }
  | { readonly kind: 'open'; readonly key: string; readonly answer: number }
  | { readonly kind: 'masks'; readonly answer: number; readonly beginnings: readonly Beginning[] }
  | { readonly kind: 'forced'; readonly answer: number; readonly beginning: Beginning }
  | { readonly kind: 'close'; readonly answer: number }
  /** The compiled grammar is not needed any more. */
  | { readonly kind: 'forget'; readonly key: string }

export type GrammarReply =
  | { readonly masks: readonly (Int32Array | undefined)[] }
  | { readonly forced: readonly number[] }
  | { readonly done: true }
  /** Parts of a strict schema that the library ignores, as it says. */
  | { readonly ignored: string }
  /** Time of a mask, which is too much: of a trial, or of the answer so far. */
  | { readonly slowMs: number }
  /** The library has ended, and why as it says. */
  | { readonly aborted: string }

/** One answer: the tokens that its matcher has accepted, of those that were asked for last. */
interface Answer {
  readonly matcher: GrammarMatcher
  asked: number[]
  accepted: number
  masks: number
  masksMs: number
}

const trialSteps = 16
/** Median of the trial. An ordinary mask takes up to 1.4 ms, so that a busy machine does not matter. */
const maxTrialMs = 100

/** Some grammars become slower with each token. All answers share the thread, so one that takes this long on average is ended. */
const maxMeanMs = 30
const patienceMs = 3_000

/** A grammar may force text without end. */
const maxForced = 32

// This file is the entry of a worker thread: it answers one question after the other for grammar-thread.ts.
const port = parentPort!
const { folder, eos, maxBytes } = workerData as GrammarWorkerData
const { library, takePrinted } = await loadXgrammar(maxBytes)
const tokenizer = await loadTokenizer(folder)
const { vocabSize } = tokenizer
const compiler = await createCompiler(tokenizer)
const compiled = new Map<string, CompiledGrammar>()
const answers = new Map<number, Answer>()
let queue = Promise.resolve()

port.on('message', (question: GrammarQuestion) => {
  queue = queue.then(async () => {
    const reply = await perform(question).catch((error: unknown): GrammarReply => ({ aborted: takePrinted() || String(error) }))
    if (question.kind !== 'close' && question.kind !== 'forget') port.postMessage(reply)
  })
})

/** All tokenizers in one form, whose tokens are bytes: special tokens have none, and no grammar allows them. */
async function createCompiler({ specialIds, bytesOf }: TextTokenizer): Promise<GrammarCompiler> {
  const tokens = Array.from({ length: vocabSize }, (_, id) => (specialIds.has(id) ? '' : byteLevelText(bytesOf(id))))
  const info = await library.TokenizerInfo.createTokenizerInfo(tokens, 'byte_level', false, tokens.length, [...eos])
  return library.GrammarCompiler.createGrammarCompiler(info, false)
}

async function perform(question: GrammarQuestion): Promise<GrammarReply> {
  switch (question.kind) {
    case 'compile': {
      const grammar = JSON.parse(question.key) as Grammar
      takePrinted()
      const result = await compile(grammar)
      const ignored = takePrinted()
      if (question.isTrial) return ignored !== '' && 'strict' in grammar && grammar.strict ? { ignored } : tried(result)
      compiled.set(question.key, result)
      return { done: true }
    }
    case 'open': {
      const matcher = await library.GrammarMatcher.createGrammarMatcher(compiled.get(question.key)!, [...eos])
      answers.set(question.answer, { matcher, asked: [], accepted: 0, masks: 0, masksMs: 0 })
      return { done: true }
    }
    case 'masks': {
      const answer = answers.get(question.answer)!
      const masks: (Int32Array | undefined)[] = []
      const startedMs = performance.now()
      for (const beginning of question.beginnings) masks.push(await maskAfter(answer, beginning))
      answer.masksMs += performance.now() - startedMs
      answer.masks += masks.length
      const meanMs = answer.masksMs / answer.masks
      return meanMs > maxMeanMs && answer.masksMs > patienceMs ? { slowMs: meanMs } : { masks }
    }
    case 'forced':
      return { forced: await forcedAfter(answers.get(question.answer)!, question.beginning) }
    case 'close':
      answers.get(question.answer)?.matcher.dispose()
      answers.delete(question.answer)
      return { done: true }
    case 'forget':
      compiled.get(question.key)?.dispose()
      compiled.delete(question.key)
      return { done: true }
    default:
      return question satisfies never
  }
}

const separators: [string, string] = [', ', ': ']

/** JSON on one line: free white space is where a model that cannot write JSON stays for ever. */
function compile(grammar: Grammar): Promise<CompiledGrammar> {
  const json = (schema: string, isStrict: boolean) => compiler.compileJSONSchema(schema, false, -1, separators, isStrict)
  switch (grammar.kind) {
    case 'object':
      return json('{"type":"object"}', false)
    case 'schema':
      return json(grammar.schema, grammar.strict)
    case 'regex':
      return compiler.compileStructuralTag({ type: 'structural_tag', format: { type: 'regex', pattern: grammar.pattern } })
    case 'ebnf':
      return compiler.compileGrammar(grammar.text)
    case 'calls':
      return compileCalls(grammar)
    default:
      return grammar satisfies never
  }
}

async function compileCalls({
  trigger,
  calls,
  mustCall,
  onlyOne,
  otherwise,
}: Extract<Grammar, { kind: 'calls' }>): Promise<CompiledGrammar> {
  const tags = await Promise.all(
    calls.map(async ({ begin, schema, strict, end, ...call }) => ({
      type: 'tag' as const,
      begin,
      content:
        call.arguments === 'xml'
          ? { type: 'qwen_xml_parameter' as const, json_schema: JSON.parse(schema) }
          : {
              type: 'grammar' as const,
              grammar: await jsonGrammar(schema, strict),
            },
      end,
    })),
  )
  if (otherwise && !mustCall) {
    // The library has no choice between a form and a text of any number of calls.
    const elements = [...tags, await formOf(otherwise)]
    return compiler.compileStructuralTag({ type: 'structural_tag', format: { type: 'or', elements } })
  }
  const format = { type: 'triggered_tags' as const, triggers: [trigger], tags, at_least_one: mustCall, stop_after_first: onlyOne }
  return compiler.compileStructuralTag({ type: 'structural_tag', format })
}

const jsonGrammar = (schema: string, strict: boolean) => library.Testings._jsonSchemaToEBNF(schema, false, -1, separators, strict)

async function formOf(form: FormGrammar) {
  switch (form.kind) {
    case 'object':
      return { type: 'grammar' as const, grammar: await jsonGrammar('{"type":"object"}', false) }
    case 'schema':
      return { type: 'grammar' as const, grammar: await jsonGrammar(form.schema, form.strict) }
    case 'regex':
      return { type: 'regex' as const, pattern: form.pattern }
    case 'ebnf':
      return { type: 'grammar' as const, grammar: form.text }
    default:
      return form satisfies never
  }
}

/** Follows one text that the grammar allows: each mask takes a token of another part of the vocabulary. */
async function tried(grammar: CompiledGrammar): Promise<GrammarReply> {
  const matcher = await library.GrammarMatcher.createGrammarMatcher(grammar, [...eos])
  const times: number[] = []
  for (let step = 0; step < trialSteps && !matcher.isTerminated(); step++) {
    const startedMs = performance.now()
    const mask = await matcher.getNextTokenBitmask()
    times.push(performance.now() - startedMs)
    const allowed = Array.from({ length: vocabSize }, (_, token) => token).filter((token) => allowsToken(mask, token))
    if (allowed.length === 0) break
    matcher.acceptToken(allowed[Math.floor((allowed.length * step) / trialSteps)]!)
  }
  matcher.dispose()
  grammar.dispose()
  const slowMs = times.sort((a, b) => a - b)[times.length >> 1] ?? 0
  return slowMs > maxTrialMs ? { slowMs } : { done: true }
}

async function maskAfter(answer: Answer, beginning: Beginning): Promise<Int32Array | undefined> {
  if (!moveTo(answer, beginning) || answer.matcher.isTerminated()) return undefined
  return answer.matcher.getNextTokenBitmask()
}

async function forcedAfter(answer: Answer, beginning: Beginning): Promise<number[]> {
  const forced: number[] = []
  if (!moveTo(answer, beginning)) return forced
  const { matcher } = answer
  while (forced.length < maxForced && !matcher.isTerminated()) {
    const token = onlyToken(await matcher.getNextTokenBitmask())
    if (token === undefined || !matcher.acceptToken(token)) break
    forced.push(token)
  }
  if (forced.length > 0) matcher.rollBack(forced.length)
  return forced
}

/** @returns whether the grammar allows it */
function moveTo(answer: Answer, { keep, tokens }: Beginning): boolean {
  const { matcher, asked } = answer
  if (answer.accepted > keep) {
    matcher.rollBack(answer.accepted - keep)
    answer.accepted = keep
  }
  asked.length = keep
  asked.push(...tokens)
  while (answer.accepted < asked.length) {
    const token = asked[answer.accepted]!
    if (token >= vocabSize || matcher.isTerminated() || !matcher.acceptToken(token)) return false
    answer.accepted += 1
  }
  return true
}
