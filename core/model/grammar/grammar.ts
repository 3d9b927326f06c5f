import { BrimError } from '../../kit/base/errors.ts'

/** The form of a whole answer. */
export type FormGrammar =
  /** One JSON object. */
  | { readonly kind: 'object' }
  /**
   * A value of this JSON schema, on one line: as `json.dumps` of Python writes it. `strict`: objects have no properties but those named,
   * and a schema is refused if a part of it cannot be kept to.
   */
  | { readonly kind: 'schema'; readonly schema: string; readonly strict: boolean }
  | { readonly kind: 'regex'; readonly pattern: string }
  /** GBNF, as in llama.cpp; its rule `root` is the text. */
  | { readonly kind: 'ebnf'; readonly text: string }

/** What the text of an answer must match. Equal grammars have equal JSON: it is their key. */
export type Grammar =
  | FormGrammar
  /** Text in which functions are called: each begins with `trigger`, and is one of `calls`. */
  | {
      readonly kind: 'calls'
      readonly trigger: string
      readonly calls: readonly CallGrammar[]
      /** The text is one call, or several, and nothing else before the first. */
      readonly mustCall: boolean
      /** It ends with the first call. */
      readonly onlyOne: boolean
      /** Where it need not call, the text is one call or this. Absent: it is any text, and may have calls in it. */
      readonly otherwise?: FormGrammar | undefined
    }

export interface CallGrammar {
  readonly begin: string
  /** JSON schema of the arguments, as JSON. */
  readonly schema: string
  /** As of a schema. */
  readonly strict: boolean
  /** `xml`: as Qwen writes parameters. */
  readonly arguments: 'json' | 'xml'
  readonly end: string
}

/** The tokens that may come next: bit i of word i / 32 is token i. Of a padded vocabulary, tokens beyond the last word may not. */
export type TokenMask = Int32Array

/** Keeps one answer to a grammar. */
export interface TokenConstraint {
  /**
   * The tokens that may follow each of these beginnings of the answer, in one question; undefined: the grammar does not allow this
   * beginning, or it is a whole text with its end.
   * @throws BrimError GRAMMAR_TOO_COMPLEX, RUNTIME_FAILED
   */
  after(beginnings: readonly (readonly number[])[]): Promise<readonly (TokenMask | undefined)[]>
  /** The tokens that must follow, one after the other: as long as there is only one. @throws as `after` */
  forcedAfter(beginning: readonly number[]): Promise<readonly number[]>
  release(): void
}

/**
 * The tokens that may follow the beginning of an answer; undefined: all.
 * @throws BrimError GRAMMAR_INVALID where the grammar does not allow this beginning; as `after`
 */
export async function maskAfter(
  constraint: TokenConstraint | undefined,
  beginning: readonly number[],
): Promise<TokenMask | undefined> {
  if (!constraint) return undefined
  const [mask] = await constraint.after([beginning])
  if (mask) return mask
  throw new BrimError('GRAMMAR_INVALID', 'the beginning of the answer does not match its schema or grammar', {
    hint: 'leave out the beginning, or the schema',
  })
}

export const allowsToken = (mask: TokenMask, token: number): boolean => (((mask[token >>> 5] ?? 0) >>> (token & 31)) & 1) === 1

/** The row with −∞ in the place of tokens that may not come. @param row logits, [vocab] */
export function masked(row: Float32Array, mask: TokenMask): Float32Array {
  const allowed = row.slice()
  for (let token = 0; token < allowed.length; token++) if (!allowsToken(mask, token)) allowed[token] = Number.NEGATIVE_INFINITY
  return allowed
}

/** The token that must come: the only one that may; undefined where there are several or none. */
export function onlyToken(mask: TokenMask): number | undefined {
  let only: number | undefined
  for (let word = 0; word < mask.length; word++) {
    const bits = mask[word]!
    if (bits === 0) continue
    if (only !== undefined || (bits & (bits - 1)) !== 0) return undefined
    only = word * 32 + 31 - Math.clz32(bits)
  }
  return only
}
