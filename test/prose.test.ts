import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Words that made readers read a sentence twice, and what to write in their place. */
const words: readonly (readonly [RegExp, string])[] = [
  [/\b(?:whoever|whomever|(?<!`)nobody|somebody|anybody)\b/gi, 'name the actor: device, bridge, client, operator, reader'],
  [/(?:^|[.:;(] )Who\b(?![^.\n]*\?)|\b(?:of|to|by|for|with|says|say|shows|decides|names|see|sees) who\b/g, 'name the actor'],
  // But for a list of common words.
  [/\b(?:he|his|him|himself)\b(?! (?:her|his|i)\b)/g, 'the reader, the operator; their'],
  [/\bmend(?:s|ed|ing)?\b/gi, 'fix, restore, complete'],
  [/\b(?:makes?|made|making) way\b/gi, 'is preempted, is evicted, gives its memory up'],
  [/\b(?:lives|lived|living) on\b/gi, 'runs with a bridge, stays healthy'],
  [/\b(?:DESIGN|SPEC) (?:§|'|\d)/g, 'a document of this repository'],
  [/\bthe very\b/gi, 'the same, the next'],
  [/\breads? along\b/gi, 'reads a streamed answer'],
]

/** Texts of models, or that they are trained with. */
const quoted = /^docs\/results\/training|^scripts\/(train|suitability)\/|^models\/|^test\/core\/policy\/pice\/suitability/

const folders = ['agent', 'bin', 'cloud-bridge', 'core', 'docs', 'jetson', 'lab', 'models', 'scripts', 'test']
const files = folders
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && /\.(ts|py|md|yaml|sh)$/.test(entry.name))
  .map((entry) => relative(root, join(entry.parentPath, entry.name)))
  .filter((file) => !quoted.test(file) && file !== 'test/prose.test.ts' && !file.includes('__pycache__'))
  .concat('README.md', 'SECURITY.md', 'CHANGELOG.md')

/** Of a benchmark's page: no text of ours follows. */
const answersOfModels = '\n## Sketched answers, to be read\n'

const prose = files.map((file) => ({ file, lines: proseOf(file) }))

it.each(words)('comments, help and documents avoid %s: write %s', (word) => {
  const found = prose.flatMap(({ file, lines }) =>
    lines.filter((line) => line.search(word) >= 0).map((line) => `${file}: ${line.trim()}`),
  )
  expect(found).toEqual([])
})

it('docs/glossary.md defines each term once', () => {
  const terms = [...readFileSync(join(root, 'docs/glossary.md'), 'utf8').matchAll(/^\| ([^|]+) \|/gm)].map((match) => match[1]!)
  const own = terms.filter((term) => term !== 'term' && !term.startsWith('---'))
  expect(own.filter((term, at) => own.indexOf(term) !== at)).toEqual([])
})

/** Documents; of code the comments, and the texts of at least three words. */
function proseOf(file: string): string[] {
  const text = readFileSync(join(root, file), 'utf8')
  if (file.endsWith('.md')) return text.split(answersOfModels)[0]!.split('\n')
  const comment = String.raw`(?:^|\s)(?:\/\/|#|\/?\*)\s.*`
  return text.match(new RegExp(`${comment}|'[^'\\n]* [^'\\n]* [^'\\n]*'|\`[^\`\\n]* [^\`\\n]* [^\`\\n]*\``, 'gm')) ?? []
}
