import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { errorCodes, reportedCodes } from '../core/kit/base/errors.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const documented = [...readFileSync(join(root, 'docs/errors.md'), 'utf8').matchAll(/^### `([A-Z_]+)`/gm)].map(
  (match) => match[1] ?? '',
)

it('docs/errors.md explains every error code, and no other', () => {
  expect([...documented].sort()).toEqual([...Object.keys(errorCodes), ...reportedCodes].sort())
})

it('every listed error code is thrown somewhere', () => {
  const source = ['core', 'agent', 'cloud-bridge', 'lab', 'brim.ts']
    .flatMap((entry) => (entry.endsWith('.ts') ? [join(root, entry)] : tsFiles(join(root, entry))))
    .filter((file) => !file.endsWith('core/kit/base/errors.ts'))
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n')
  // scripts/setup reports its code without TypeScript.
  const thrown = source + readFileSync(join(root, 'scripts/setup'), 'utf8')
  expect(Object.keys(errorCodes).filter((code) => !thrown.includes(`'${code}'`) && !thrown.includes(`[${code}]`))).toEqual([])
})

/** Names with an underscore that are not codes of ours: of Node, SQLite, ONNX Runtime, the kernel, and a state of jobs. */
const otherNames = /^(ERR|SQLITE|ORT|OrtApi|CERT|PLUGGED|VDD|BRIM|UNABLE|DEPTH|SELF|JOURNAL|XDG|CMAKE|NO)_/

it('docs/errors.md has every code in the source, those of reports and responses included', () => {
  const source = ['core', 'agent', 'cloud-bridge', 'scripts/demonstration', 'brim.ts']
    .flatMap((entry) => (entry.endsWith('.ts') ? [join(root, entry)] : tsFiles(join(root, entry))))
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n')
  const withUnderscore = [...source.matchAll(/'([A-Z]+(?:_[A-Z]+)+)'/g)].map(([, code]) => code ?? '')
  const named = [...source.matchAll(/(?:\bcode(?::| =| \?\?)|\?\?) '([A-Z_]+)'/g)].map(([, code]) => code ?? '')
  const codes = [...new Set([...withUnderscore, ...named])].filter((code) => !otherNames.test(code) && !/^E[A-Z]+$/.test(code))
  expect(codes.length).toBeGreaterThan(50)
  expect(codes.filter((code) => !documented.includes(code))).toEqual([])
})

function tsFiles(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
}
