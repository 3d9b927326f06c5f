import { beforeAll, describe, expect, it } from 'vitest'
import { allowsToken, type Grammar, onlyToken, type TokenConstraint } from '../../../../core/model/grammar/grammar.ts'
import { createGrammars, type Grammars } from '../../../../core/model/grammar/grammars.ts'
import { loadTokenizer } from '../../../../core/model/text/tokenizer.ts'
import { fixtureDir } from '../../../oracle/fixtures.ts'
import { shared } from '../../../support/shared.ts'

const checkpoint = 'models/demo/llm'
const eos = [2]
let grammars: Grammars
const tokenizer = shared(() => loadTokenizer(checkpoint))
beforeAll(async () => {
  grammars = createGrammars(checkpoint, eos)
})

const schemaOf = (schema: unknown, strict = true): Grammar => ({ kind: 'schema', schema: JSON.stringify(schema), strict })
const idsOf = (text: string) => tokenizer.encode(text, { addSpecialTokens: false })

async function withConstraint<T>(grammar: Grammar, use: (constraint: TokenConstraint) => Promise<T>, of = grammars): Promise<T> {
  const constraint = await of.open(grammar)
  try {
    return await use(constraint)
  } finally {
    constraint.release()
  }
}

/** Whether the grammar allows the text, and its end. */
const accepts = (grammar: Grammar, text: string) =>
  withConstraint(grammar, async (constraint) => {
    const [mask] = await constraint.after([idsOf(text)])
    return mask !== undefined && allowsToken(mask, eos[0]!)
  })

describe('a grammar', () => {
  it.each<[Grammar, string[], string[]]>([
    [{ kind: 'object' }, ['{}', '{"a": [1, "b", null]}'], ['[]', '1', '{"a": }', '']],
    [
      schemaOf({ type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }),
      ['{"a": 7}'],
      ['{}', '{"a": "7"}', '{"a": 7, "b": 1}'],
    ],
    [{ kind: 'regex', pattern: '(yes|no)[!?]' }, ['yes!', 'no?'], ['yes', 'maybe!', '']],
    [{ kind: 'ebnf', text: 'root ::= "a" [0-9]{2}' }, ['a42'], ['a4', 'a421']],
  ])('%j allows some texts and no others', async (grammar, right, wrong) => {
    for (const text of right) expect(await accepts(grammar, text), text).toBe(true)
    for (const text of wrong) expect(await accepts(grammar, text), text).toBe(false)
  })

  it('is followed back and forth, whatever was asked before', async () => {
    const grammar = schemaOf({ type: 'array', items: { enum: ['red', 'green'] }, minItems: 1, maxItems: 3 })
    await withConstraint(grammar, async (constraint) => {
      const whole = [...idsOf('["red", "green"]'), ...eos]
      const beginnings = whole.map((_, at) => whole.slice(0, at))
      const forwards = await constraint.after(beginnings)
      expect(forwards.every((mask, at) => mask && allowsToken(mask, whole[at]!))).toBe(true)
      // After its end nothing follows, nor after what it does not allow.
      expect(await constraint.after([whole, [...whole.slice(0, 2), 5, 5, 5], [4_000_000]])).toEqual([
        undefined,
        undefined,
        undefined,
      ])
      for (const at of [3, 1, whole.length - 1, 0]) expect(await constraint.after([beginnings[at]!])).toEqual([forwards[at]])
    })
  })

  it('tells what must come', async () => {
    await withConstraint({ kind: 'regex', pattern: '[ab]zzz' }, async (constraint) => {
      const forced = await constraint.forcedAfter(idsOf('azzz'))
      expect(forced).toEqual(eos)
      const [mask] = await constraint.after([idsOf('azzz')])
      expect(onlyToken(mask!)).toBe(eos[0])
      expect(await constraint.forcedAfter([])).toEqual([])
    })
  })

  it('knows the bytes of tokenizers of the other kind', async () => {
    const folder = fixtureDir('llama')
    const own = await loadTokenizer(folder)
    const end = own.specialIds.values().next().value!
    await withConstraint(
      { kind: 'regex', pattern: 'a ñ 字' },
      async (constraint) => {
        const [mask] = await constraint.after([own.encode('a ñ 字', { addSpecialTokens: false })])
        expect(mask && allowsToken(mask, end)).toBe(true)
      },
      createGrammars(folder, [end]),
    )
  })
})

describe('a bad grammar is refused by name, and answers beside it go on', () => {
  const deep = Array.from({ length: 80 }).reduce<object>((items) => ({ type: 'array', items }), {})
  it.each<[string, Grammar, string, RegExp]>([
    ['grammar', { kind: 'ebnf', text: 'root ::= (' }, 'GRAMMAR_INVALID', /EBNF parser error/],
    ['regular expression', { kind: 'regex', pattern: '(a' }, 'GRAMMAR_INVALID', /parenthesis/],
    ['type', schemaOf({ type: 'objec' }), 'GRAMMAR_INVALID', /Unsupported type "objec"/],
    ['remote reference', schemaOf({ $ref: 'http://example.org/x' }, true), 'GRAMMAR_INVALID', /URI should/],
    [
      'keyword',
      schemaOf({ properties: { a: { type: 'array', uniqueItems: true } } }),
      'GRAMMAR_INVALID',
      /#\/properties\/a, uniqueItems/,
    ],
    ['schema that is none', schemaOf([1]), 'GRAMMAR_INVALID', /must be an object/],
    ['pattern with a length', schemaOf({ type: 'string', pattern: 'a+', maxLength: 3 }), 'GRAMMAR_INVALID', /not supported yet/],
    ['size', schemaOf({ enum: ['x'.repeat(200_000)] }), 'GRAMMAR_TOO_COMPLEX', /128 KiB/],
    ['depth', schemaOf(deep), 'GRAMMAR_TOO_COMPLEX', /64 deep/],
    ['memory', { kind: 'ebnf', text: `root ::= ${'('.repeat(9_000)}"a"${')*'.repeat(9_000)}` }, 'GRAMMAR_TOO_COMPLEX', /./],
    ['repetition', { kind: 'regex', pattern: `(${'a?'.repeat(30_000)}){9999}` }, 'GRAMMAR_TOO_COMPLEX', /./],
  ])('%s', async (_, grammar, code, message) => {
    await withConstraint({ kind: 'regex', pattern: '[a-z]+' }, async (beside) => {
      const before = await beside.after([idsOf('abc')])
      await expect(grammars.open(grammar)).rejects.toMatchObject({ code, message: expect.stringMatching(message) })
      // And again, now that it is known.
      await expect(grammars.open(grammar)).rejects.toMatchObject({ code })
      expect(await beside.after([idsOf('abc')])).toEqual(before)
    })
  })

  it('a keyword that is not supported is ignored where the schema is not strict', async () => {
    expect(await accepts(schemaOf({ type: 'array', items: { type: 'integer' }, uniqueItems: true }, false), '[1, 1]')).toBe(true)
  })

  it('a model whose answers have no end has none', async () => {
    await expect(createGrammars(checkpoint, []).open({ kind: 'object' })).rejects.toMatchObject({ code: 'GRAMMAR_INVALID' })
  })
})

it('many answers with many grammars are kept apart', async () => {
  const patterns = Array.from({ length: 90 }, (_, at) => `[a-z]{${1 + (at % 5)}}${at}`)
  const all = await Promise.all(
    patterns.map((pattern) =>
      withConstraint({ kind: 'regex', pattern }, async (constraint) => {
        const text = `${'abcde'.slice(0, 1 + (patterns.indexOf(pattern) % 5))}${patterns.indexOf(pattern)}`
        const [mask, wrong] = await constraint.after([idsOf(text), idsOf(`${text}x`)])
        return mask !== undefined && allowsToken(mask, eos[0]!) && wrong === undefined
      }),
    ),
  )
  expect(all).toEqual(patterns.map(() => true))
})
