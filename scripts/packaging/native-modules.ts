import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { nodeVersion, type Platform } from './platforms.ts'
import { runTool } from './run.ts'

interface Toolchain {
  /** Zig's program, called only where a module has to be compiled. */
  zig(): string
  readonly platform: Platform
  /** Folder of Node's headers. */
  readonly headers: string
  /** Where compiled modules and the compiler's libraries are kept. */
  readonly cache: string
}

/** The packages whose native modules are compiled here; the others hold modules for every platform. */
const compilers = { 'better-sqlite3': compileSqlite, bufferutil: compileBufferutil } as const

/**
 * Compiles the native modules of packages in `modules`, for the platform's Node and an old C library, unless an earlier run has.
 * Not with node-gyp: it takes the compiler's options from the Node that it runs on.
 * @param modules a node_modules folder with the packages' sources
 */
export function addNativeModules(modules: string, toolchain: Toolchain): void {
  for (const [name, compile] of Object.entries(compilers)) {
    const folder = join(modules, name)
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }
    const file = `${name.replace('-', '_')}.node`
    const kept = join(toolchain.cache, 'modules', `${name}-${version}-node-${nodeVersion}-${toolchain.platform.zig}`, file)
    if (!existsSync(kept)) {
      process.stderr.write(`package: compiling ${name} for ${toolchain.platform.zig} (up to 3 minutes)\n`)
      const objects = join(toolchain.cache, `objects-${process.pid}`)
      mkdirSync(objects, { recursive: true })
      compile(folder, objects, join(objects, file), toolchain)
      mkdirSync(dirname(kept), { recursive: true })
      renameSync(join(objects, file), kept)
      rmSync(objects, { recursive: true })
    }
    cpSync(kept, join(folder, 'build/Release', file))
  }
}

/** The options of the package's binding.gyp and deps/. */
function compileSqlite(folder: string, objects: string, out: string, toolchain: Toolchain): void {
  const definitions = readFileSync(join(folder, 'deps/defines.gypi'), 'utf8')
  const defines = [...definitions.matchAll(/^ {4}'([A-Z]\w+(?:=[^']*)?)',$/gm)].map((match) => `-D${match[1]}`)
  const [sqlite, binding] = [join(objects, 'sqlite3.o'), join(objects, 'better_sqlite3.o')]
  compile('cc', ['-std=c99', ...defines, '-c', 'deps/sqlite3/sqlite3.c', '-o', sqlite], folder, toolchain)
  const options = ['-std=c++20', ...addOn(toolchain), ...defines, '-I', 'deps/sqlite3']
  compile(
    'c++',
    [...options, '-DNODE_GYP_MODULE_NAME=better_sqlite3', '-c', 'src/better_sqlite3.cpp', '-o', binding],
    folder,
    toolchain,
  )
  // The C++ library is linked statically: Zig's is not the one that systems have.
  compile('c++', ['-shared', '-s', '-Wl,-Bsymbolic', binding, sqlite, '-o', out], folder, toolchain)
}

function compileBufferutil(folder: string, _objects: string, out: string, toolchain: Toolchain): void {
  const options = ['-std=c99', ...addOn(toolchain), '-DNODE_GYP_MODULE_NAME=bufferutil', '-shared', '-s']
  compile('cc', [...options, 'src/bufferutil.c', '-o', out], folder, toolchain)
}

const addOn = ({ headers }: Toolchain) => ['-DBUILDING_NODE_EXTENSION', '-I', headers]

function compile(compiler: 'cc' | 'c++', args: readonly string[], folder: string, toolchain: Toolchain): void {
  const { platform, cache, headers } = toolchain
  // Without paths of this machine (__FILE__ of headers), so that every machine compiles the same.
  const options = ['-O3', '-fPIC', '-DNDEBUG', '-w', '-fvisibility=hidden', `-ffile-prefix-map=${headers}=node`]
  const libraries = join(cache, 'zig-cache')
  const env = { ZIG_GLOBAL_CACHE_DIR: libraries, ZIG_LOCAL_CACHE_DIR: libraries }
  runTool(toolchain.zig(), [compiler, '-target', platform.zig, ...options, ...args], { cwd: folder, env })
}
