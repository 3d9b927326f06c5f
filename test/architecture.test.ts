import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

interface Import {
  from: string
  to: string
  typeOnly: boolean
}

const files = [
  ...['core', 'agent', 'cloud-bridge', 'lab', 'scripts'].flatMap((dir) => tsFiles(join(root, dir))),
  join(root, 'brim.ts'),
]
const imports = files.flatMap(importsOf)

/** Which of our folders a folder may import, beside itself. The most specific row counts. */
const rules: Record<string, { values: string[]; types?: string[] }> = {
  'core/base': { values: [], types: ['core/protocol'] },
  'core/protocol': { values: ['core/base'] },
  'core/policy': { values: [], types: ['core/protocol', 'core/base'] },
  'core/openai': { values: ['core/base'], types: ['core/text'] },
  'core/text': { values: ['core/base'], types: ['core/protocol'] },
  'core/model': { values: ['core/base', 'core/protocol', 'core/policy', 'core/text', 'core/engine'] },
  'core/engine': { values: ['core/base', 'core/protocol', 'core/policy', 'core/text', 'core/model'] },
  'core/draft': { values: ['core/base', 'core/protocol', 'core/policy', 'core/engine'] },
  'core/store': { values: ['core/base', 'core/protocol', 'core/policy'] },
  'core/cli': { values: ['core/base'] },
  'core/commands': { values: ['core'] },
  agent: { values: ['core'] },
  // Declares the ports that it needs; identity implements one of them.
  'agent/link': { values: ['core'] },
  'agent/device': { values: ['core'] },
  'agent/telemetry': { values: ['core'], types: ['agent/device'] },
  'agent/identity': { values: ['core'], types: ['agent/link'] },
  // Endpoints implement agent/answer's interface; the API consumes it and knows no endpoint.
  'agent/answer': { values: ['core'] },
  'agent/hat': { values: ['core', 'agent/answer'], types: ['agent/link'] },
  'agent/slm': { values: ['core', 'agent/answer'] },
  'agent/api': { values: ['core', 'agent/answer'] },
  'cloud-bridge': { values: ['core'] },
  // Knows neither frames nor the papers' sessions: hat, pice and api depend on it, never the reverse.
  'cloud-bridge/serving': { values: ['core'] },
  lab: { values: ['core', 'agent', 'cloud-bridge'] },
  'scripts/docs': { values: ['brim.ts', 'core'] },
  'scripts/demonstration': { values: ['core', 'lab'] },
  'brim.ts': { values: ['core', 'agent/commands', 'cloud-bridge/commands', 'lab/bench', 'scripts/demonstration'] },
}

describe('imports point one way', () => {
  it('reads some imports at all', () => {
    expect(imports.length).toBeGreaterThan(100)
  })

  it('follows the rules of the house', () => {
    const broken = imports.filter((line) => !allowed(line)).map((line) => `${line.from} → ${line.to}`)
    expect(broken).toEqual([])
  })

  it('keeps clocks, sockets, timers and randomness out of the policy', () => {
    const impure = /\b(Date\.now|performance\.now|Math\.random|setTimeout|setInterval|process\.)|from 'node:|from '(?!\.)/
    const broken = tsFiles(join(root, 'core/policy')).filter((file) => impure.test(readFileSync(file, 'utf8')))
    expect(broken).toEqual([])
  })

  it('reads the environment in the front door alone', () => {
    const broken = files.filter((file) => !file.endsWith('brim.ts') && /process\.env\b/.test(readFileSync(file, 'utf8')))
    expect(broken.map((file) => relative(root, file))).toEqual([])
  })
})

function allowed({ from, to, typeOnly }: Import): boolean {
  const own = folderOf(from)
  if (within(to, own)) return true
  const rule = rules[own]
  if (!rule) return false
  return [...rule.values, ...(typeOnly ? (rule.types ?? []) : [])].some((folder) => within(to, folder))
}

function folderOf(file: string): string {
  const row = Object.keys(rules).filter((folder) => within(file, folder))
  return row.sort((a, b) => b.length - a.length)[0] ?? file
}

function within(file: string, folder: string): boolean {
  return file === folder || file.startsWith(`${folder}/`)
}

function importsOf(file: string): Import[] {
  const source = readFileSync(file, 'utf8')
  const pattern = /^\s*(?:import|export)\s+(type\s)?[^'"]*?from\s+'(\.[^']+)'|import\(\s*'(\.[^']+)'\s*\)/gm
  return [...source.matchAll(pattern)].map((match) => ({
    from: relative(root, file),
    to: relative(root, resolve(dirname(file), match[2] ?? match[3] ?? '')),
    typeOnly: match[1] !== undefined,
  }))
}

function tsFiles(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
}
