import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Folder of package.json, models/ and scripts/: this module runs as dist/core/kit/base/version.js. */
export const projectRoot = new URL('../../../../', import.meta.url)

/** The command line, for processes of its own; built, also where the tests run the TypeScript sources. */
export const cliProgram = fileURLToPath(new URL('dist/brim.js', projectRoot))

/** `0.2.0` */
export const release = (JSON.parse(readFileSync(new URL('package.json', projectRoot), 'utf8')) as { version: string }).version

/** The release and the commit that scripts/setup has built, `0.2.0+72ab0c0`; without the commit where there is no git. */
export const version = [release, ...builtCommit()].join('+')

function builtCommit(): string[] {
  try {
    return [readFileSync(new URL('dist/.commit', projectRoot), 'utf8').trim()].filter(Boolean)
  } catch {
    return []
  }
}
