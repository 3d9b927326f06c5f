import { shellWord } from '../base/shell-word.ts'
import type { Menu } from './command.ts'
import { positionalsOf, wordOf } from './find-command.ts'
import type { Flag } from './flags.ts'

/** What can follow the words of one command or menu. */
export interface Completion {
  /** `job submit`; empty for the menu of all commands. */
  readonly words: string
  /** Names with their summaries. */
  readonly commands: readonly (readonly [name: string, summary: string])[]
  readonly options: readonly CompletedOption[]
  /** Values of its positional, where only these are valid. */
  readonly choices: readonly string[]
}

interface CompletedOption {
  /** With dashes. */
  readonly name: string
  readonly help: string
  readonly takesValue: boolean
  /** Empty: any value, completed as a file name. */
  readonly choices: readonly string[]
}

const commonOptions: readonly CompletedOption[] = [
  { name: '--json', help: 'print JSON', takesValue: false, choices: [] },
  { name: '--help', help: 'show help', takesValue: false, choices: [] },
]

/** Completions of every command under a menu. It loads all of them. */
export async function completionsOf(menu: Menu, words = ''): Promise<Completion[]> {
  const commands = Object.entries(menu.commands).map(([name, [summary]]) => [wordOf(name), summary] as const)
  const below = Object.entries(menu.commands).map(async ([name, [, load]]): Promise<Completion[]> => {
    const path = `${words} ${wordOf(name)}`.trim()
    const loaded = await load()
    if ('menu' in loaded) return completionsOf(loaded.menu, path)
    const positionals = positionalsOf(name)
    const [given, options] = [true, false].map((is) =>
      [...loaded.command.flags, ...(loaded.command.alsoTakes?.flags ?? [])].filter(
        (flag) => positionals.includes(flag.name) === is,
      ),
    )
    const choices = (given ?? []).flatMap(choicesOf)
    return [{ words: path, commands: [], options: [...(options ?? []).flatMap(optionsOf), ...commonOptions], choices }]
  })
  return [{ words, commands, options: commonOptions, choices: [] }, ...(await Promise.all(below)).flat()]
}

const choicesOf = ({ choices = [] }: Flag) => choices.map(String)

/** An option that is on by default is completed as `--no-…`. */
function optionsOf(flag: Flag): CompletedOption[] {
  const { name, alias, help, type, fallback } = flag
  const names = [name, ...(alias === undefined ? [] : [alias])]
  const negated = type === 'boolean' && fallback !== undefined ? [`no-${name}`] : []
  return [...names, ...negated].map((word) => ({
    name: `--${word}`,
    help,
    takesValue: type !== 'boolean',
    choices: choicesOf(flag),
  }))
}

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

/** A script that completes the commands and options of `brim` without starting it. */
export const completionScript = (shell: Shell, completions: readonly Completion[]): string => scripts[shell](completions)

const scripts: Readonly<Record<Shell, (completions: readonly Completion[]) => string>> = {
  bash: (completions) => `# bash completion of brim; in ~/.bashrc: source <(brim completion bash)
${wordFunctions(completions)}
_brim() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} following
  _brim_words "$(_brim_command "\${COMP_WORDS[@]:1:COMP_CWORD-1}")" "$current" "$previous"
  COMPREPLY=($(compgen -W "$following" -- "$current"))
}
complete -o bashdefault -o default -F _brim brim bin/brim ./bin/brim
`,
  zsh: (completions) => `#compdef brim
# zsh completion of brim; in ~/.zshrc, after compinit: source <(brim completion zsh)
${wordFunctions(completions)}
_brim() {
  local current=\${words[CURRENT]} previous=\${words[CURRENT-1]} command
  command=$(_brim_command "\${(@)words[2,CURRENT-1]}")
  local following
  _brim_words "$command" "$current" "$previous"
  if [[ -n $following ]]; then compadd -- \${=following}; else _files; fi
}
compdef _brim brim
`,
  fish: (completions) => `# fish completion of brim: brim completion fish > ~/.config/fish/completions/brim.fish
function __brim_command
    set -l found
    for word in (commandline -opc)[2..]
        if contains -- (string join ' ' $found $word) ${quotedList(completions.flatMap(({ words }) => words || []))}
            set found $found $word
        end
    end
    string join ' ' -- $found
end
${completions.flatMap(fishLines).join('\n')}
`,
}

/** Functions for bash and zsh: `_brim_command` prints the command that words name, `_brim_words` sets `following`. */
function wordFunctions(completions: readonly Completion[]): string {
  const known = completions.flatMap(({ words }) => (words === '' ? [] : [shellWord(words)]))
  const values = completions.flatMap(({ words, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ name, choices }) => `    ${shellWord(`${words} ${name}`)}) following=${shellWord(choices.join(' '))}; return ;;`),
  )
  const following = completions.map(({ words, commands, options, choices }) => {
    const plain = [...commands.map(([name]) => name), ...choices].join(' ')
    return `    ${shellWord(words)}) plain=${shellWord(plain)} options=${shellWord(options.map(({ name }) => name).join(' '))} ;;`
  })
  return `_brim_command() {
  local found= next word
  for word in "$@"; do
    next=$found\${found:+ }$word
    case $next in
    ${known.join('|')}) found=$next ;;
    esac
  done
  printf %s "$found"
}
_brim_words() {
  local plain= options=
  following=
  case "$1 $3" in
${values.join('\n')}
  esac
  case $1 in
${following.join('\n')}
  esac
  case $2 in
    -*) following=$options ;;
    *) following=$plain ;;
  esac
}`
}

function fishLines({ words, commands, options, choices }: Completion): string[] {
  const line = `complete -c brim -n ${shellWord(`test (__brim_command) = "${words}"`)}`
  return [
    ...commands.map(([name, summary]) => `${line} -f -a ${name} -d ${fishQuoted(summary)}`),
    ...(choices.length === 0 ? [] : [`${line} -f -a ${shellWord(choices.join(' '))}`]),
    ...options.map(({ name, help, takesValue, choices: values }) => {
      const value = !takesValue ? '' : values.length === 0 ? ' -r' : ` -x -a ${shellWord(values.join(' '))}`
      return `${line} -l ${name.slice(2)}${value} -d ${fishQuoted(help)}`
    }),
  ]
}

const quotedList = (words: readonly string[]) => words.map(shellWord).join(' ')
const fishQuoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", `\\'`)}'`
