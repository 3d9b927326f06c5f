import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { menu } from '../../../../brim.ts'
import { BrimError, toErrorText } from '../../../../core/kit/base/errors.ts'
import type { Menu } from '../../../../core/kit/cli/command.ts'
import { commandWords, withUsefulHint } from '../../../../core/kit/cli/useful-hint.ts'

const hintAfter = (hint: string, ...failed: string[]) =>
  (withUsefulHint(new BrimError('NOT_AUTHORIZED', 'no', { hint }), failed) as BrimError).hint

describe('a hint', () => {
  it('does not name the command that has just failed, without further options', () => {
    const hint = 'brim login; at the bridge, "brim bridge key create" creates a key'
    expect(hintAfter(hint, 'login')).toBe('at the bridge, "brim bridge key create" creates a key')
    expect(hintAfter(hint, 'job', 'list')).toBe(hint)
    expect(hintAfter('"brim device list" lists them', 'device', 'list')).toBeUndefined()
    expect(hintAfter('trust it with "brim login --pin …"', 'login')).toBe('trust it with "brim login --pin …"')
    expect(hintAfter('brim job submit bundle.install --model <bundle>', 'job', 'submit')).toContain('--model')
    expect(hintAfter('"brim device list" lists them', 'device', 'list-all')).toBe('"brim device list" lists them')
  })

  it('keeps code, message and cause', () => {
    const error = new BrimError('LINK_LOST', 'broken', { cause: new Error('reset'), hint: 'brim ask; wait' })
    expect(toErrorText(withUsefulHint(error, ['ask']))).toBe('error: broken [LINK_LOST]\n  why: reset\n  try: wait')
  })

  it('of any source file names no command alone after that command has failed', { timeout: 60_000 }, async () => {
    const root = fileURLToPath(new URL('../../../../', import.meta.url))
    const files = ['agent', 'cloud-bridge', 'core', 'lab'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .filter((path) => path.endsWith('.ts'))
        .map((path) => readFileSync(join(root, folder, path), 'utf8')),
    )
    const texts = files.flatMap((source) => [...source.matchAll(/'([^'\n]*brim [a-z][^'\n]*)'|`([^`\n]*brim [a-z][^`\n]*)`/g)])
    const hints = texts.map(([, plain, template]) => plain ?? template ?? '')
    expect(hints.length).toBeGreaterThan(50)
    const commands = await leavesOf(menu)
    for (const failed of commands)
      for (const hint of hints.filter((text) => text.includes(`brim ${failed.join(' ')}`)))
        for (const part of hintAfter(hint, ...failed)?.split('; ') ?? [])
          expect(part).not.toMatch(new RegExp(`\\bbrim ${failed.join(' ')}(?![\\w-])(?!.* --\\w)`))
  })
})

it('the words of a command line end where its arguments begin', async () => {
  expect(await commandWords(menu, ['bridge', 'key', 'list', '--json'])).toEqual(['bridge', 'key', 'list'])
  expect(await commandWords(menu, ['device', 'show', 'list'])).toEqual(['device', 'show'])
  expect(await commandWords(menu, ['nothing'])).toEqual([])
})

async function leavesOf({ commands }: Menu, parent: readonly string[] = []): Promise<string[][]> {
  const leaves = Object.entries(commands).map(async ([name, [, load]]) => {
    const words = [...parent, name.split(' ')[0]!]
    const loaded = await load()
    return 'menu' in loaded ? leavesOf(loaded.menu, words) : [words]
  })
  return (await Promise.all(leaves)).flat()
}
