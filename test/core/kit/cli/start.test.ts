import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const nativePackages = ['better-sqlite3', 'bufferutil', 'koffi', 'onnxruntime-node']

/** Modules and packages that a module loads statically, directly or indirectly. */
function loadedWith(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen
  seen.add(file)
  const source = readFileSync(file, 'utf8')
  for (const [, name = ''] of source.matchAll(/^(?:import|export) (?!type )[^'"]*?from '([^']+)'/gm))
    if (name.startsWith('.')) loadedWith(resolve(dirname(file), name), seen)
    else seen.add(name)
  return seen
}

const commandFiles = ['core/commands', 'agent/commands', 'cloud-bridge/commands'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => /export const (?:command|menu)\b/.test(readFileSync(file, 'utf8'))),
)

it.each(['brim.ts', ...commandFiles.map((file) => relative(root, file))])(
  'shows help without loading a native package: %s',
  (file) => {
    const loaded = loadedWith(join(root, file))
    expect(nativePackages.filter((name) => loaded.has(name))).toEqual([])
  },
)

it('prints version and help without loading zod', () => {
  expect([...loadedWith(join(root, 'brim.ts'))]).not.toContain('zod')
})
