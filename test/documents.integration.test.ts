import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const documents = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' }).trim().split('\n')

describe('documents', () => {
  it.each(documents)('%s links only to files that exist', (document) => {
    const text = readFileSync(join(root, document), 'utf8').replace(/^```[\s\S]*?^```|`[^`\n]*`/gm, '')
    const targets = [...text.matchAll(/\]\(([^)\s#]+)(?:#[^)]*)?\)/g)].map((match) => match[1]!)
    const local = targets.filter((target) => !/^[a-z]+:/.test(target))
    expect(local.filter((target) => !existsSync(join(root, dirname(document), target)))).toEqual([])
  })

  it('have pictures below 200 KB', () => {
    const listed = execFileSync('git', ['ls-files', '*.png', '*.jpg'], { cwd: root, encoding: 'utf8' }).trim().split('\n')
    const large = listed.filter((picture) => picture !== '' && statSync(join(root, picture)).size >= 200_000)
    expect(large).toEqual([])
  })

  it('keep the README below 9 KiB', () => {
    expect(Buffer.byteLength(readFileSync(join(root, 'README.md')))).toBeLessThanOrEqual(9 * 1024)
  })
})
