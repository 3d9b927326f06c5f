import { readFileSync } from 'node:fs'

/** Folder of package.json, models/ and scripts/: two levels above this file, or three when it runs from dist/. */
export const projectRoot = findRoot()

export const version = (JSON.parse(readFileSync(new URL('package.json', projectRoot), 'utf8')) as { version: string }).version

function findRoot(): URL {
  const above = new URL('../../', import.meta.url)
  return above.pathname.endsWith('/dist/') ? new URL('../', above) : above
}
