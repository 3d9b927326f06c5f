import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const pathOf = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))

/**
 * The Python of a folder's packages; undefined, with a printed reason, where the ones that this commit tests with are not
 * installed. That is no failure under CI=true: PyPI may be out of reach.
 * @param name a folder of test/ with a requirements.txt, which test/install-python installs
 */
export function pythonWith(name: string): string | undefined {
  const read = (path: string) => readFileSync(pathOf(path), 'utf8')
  try {
    if (read(`.cache/${name}/requirements.txt`) === read(`test/${name}/requirements.txt`))
      return pathOf(`.cache/${name}/bin/python`)
  } catch {}
  console.log(`skipped, missing: the Python packages of test/${name} (test/install-python ${name} says why)`)
  return undefined
}
