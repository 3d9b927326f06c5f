import { oddsInOtherLanguage } from './other-languages.ts'

/**
 * What a request for an answer looks like, in numbers: surface features, each from 0 to 1, and hashed word n-grams that have length 1
 * together. Independent of any tokenizer, so that weights trained once fit every LLM.
 */
export interface RequestFeatures {
  /** In the order of `surfaceFeatures`. */
  readonly surface: readonly number[]
  /** Buckets of the n-grams that occur, each once; each has the value 1/√count. */
  readonly buckets: readonly number[]
  /** Of a request in another language, in the place of what trained weights make of the others; undefined: English. */
  readonly odds?: number | undefined
}

export const bucketCount = 4_096

/** Of a longer request, its beginning and its end: where people write what they want. */
const maxChars = { begin: 3_000, end: 1_000 }
const maxWords = 400
/** Words at the beginning that tell the kind of request. */
const leadWords = 4

type Measure = (text: string, words: readonly string[]) => number

const share = (count: number, of: number): number => Math.min(1, count / of)
const countOf = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0
const has =
  (...patterns: RegExp[]): Measure =>
  (text) =>
    patterns.some((pattern) => pattern.test(text)) ? 1 : 0

const measures: Readonly<Record<string, Measure>> = {
  words: (_, words) => share(Math.log1p(words.length), Math.log(maxWords)),
  questions: (text) => share(countOf(text, /\?/g), 4),
  oneQuestion: (text) => (countOf(text, /\?/g) === 1 ? 1 : 0),
  lines: (text) => share(countOf(text.trim(), /\n/g), 8),
  numbers: (text, words) => share(countOf(text, /\b\d+(?:[.,]\d+)*\b/g), 2 + words.length / 8),
  code: has(/[{};][ \t]*$|=>|\w\(\)|^[ \t]*#include|\bdef \w+\(|<\/?\w+>|```|\b\w+\.\w+\(/m),
  language: has(
    /(?<!\w)(?:python|java|javascript|typescript|c\+\+|c#|rust|ruby|golang|php|sql|html|css|latex|matlab|lua|bash|excel|regex|json|yaml)(?!\w)/i,
  ),
  program: has(
    /\b(?:code|program|function|algorithm|script|array|implement|compile|debug|api|database|query|regular expression|data structure)\b/i,
  ),
  math: has(
    /[=^√∫∑≤≥]|\d\s*[-+*/×÷]\s*\d/,
    /\b(?:equation|integral|derivative|solve|calculate|compute|probability|theorem|prove|triangle|polynomial)\b/i,
  ),
  units: has(/[$€£]\s?\d|\d\s?(?:%|kg|km|cm|mm|m|miles?|hours?|minutes?|litres?|liters?|dollars?|N|m\/s)\b/),
  choices: (text) => (/(?:^|[\s(])a[).:]\s/i.test(text) && /[\s(]b[).:]\s/i.test(text) ? 1 : 0),
  quoted: has(/["“”«»]/),
  givenText: has(/:[ \t]*(?:\n|["“])|\b(?:following|given|below|above)\b/i),
  steps: has(/step[- ]by[- ]step|reasoning/i),
  play: has(/^(?:as an? |pretend|imagine you|act as|you are |if you were|suppose you)/i),
  compose: has(
    /\b(?:write|compose|draft|create|craft|tell)\b.{0,60}\b(?:story|tale|poem|haiku|song|lyrics|email|letter|speech|essay|blog|post|review|script|card|note|report|dialogue|joke|tweet|novel|scene|advertisement|description)\b/is,
  ),
  rewrite: has(/\b(?:translate|rewrite|rephrase|paraphrase|summari[sz]e|correct|edit|classify|extract|convert|identify)\b/i),
  severalThings: has(/\bwhat (?:are|were)\b/i),
  points: has(
    /\b(?:ways|tips|ideas|factors|reasons|causes|benefits|advantages|disadvantages|pros|cons|challenges|differences|strategies|effects|impacts?|implications|applications|types|features|examples|steps|methods|habits|signs|risks|consequences|techniques|aspects|issues|points)\b/i,
  ),
  oneFact: has(
    /^(?:who|when|where|which|what(?:['’]s| is| was) the (?:name|capital|date|year|value|number|largest|smallest|first|last|meaning)|how (?:many|much|old|long|far|tall|big|high))\b/i,
  ),
  yesOrNo: has(/^(?:is|are|was|were|do|does|did|can|could|should|will|would|has|have)\b/i),
  howTo: has(/\bhow (?:can|could|do|should|to|might|would)\b/i),
  whatIf: has(/\b(?:what if|what would happen|how would .{1,80} (?:be|have been) different)\b/i),
  why: has(/\bwhy\b/i),
  process: has(/\b(?:process|explain how|how .{1,40} works?)\b/i),
}

/** Names of the surface features, in their order. */
export const surfaceFeatures: readonly string[] = Object.keys(measures)

/** @param request the user's last message */
export function featuresOf(request: string): RequestFeatures {
  const isLong = request.length > maxChars.begin + maxChars.end
  const text = isLong ? `${request.slice(0, maxChars.begin)}\n${request.slice(-maxChars.end)}` : request
  const words = (text.toLowerCase().match(/\p{L}+(?:['’]\p{L}+)?|\d+|[^\s\p{L}\d]/gu) ?? []).slice(0, maxWords)
  const buckets = new Set<number>()
  for (const [at, word] of words.entries()) {
    buckets.add(bucketOf(word))
    buckets.add(bucketOf(`${word} ${words[at + 1] ?? '$'}`))
    if (at < leadWords) buckets.add(bucketOf(`^${at} ${word}`))
  }
  const surface = Object.values(measures).map((measure) => measure(text, words))
  return { surface, buckets: [...buckets], odds: oddsInOtherLanguage(text, words) }
}

/** FNV-1a over UTF-16 units. */
function bucketOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return (hash >>> 0) % bucketCount
}
