# The documentation as a test reads it: pages, their blocks of code, and what to do with each, which its info string says:
#
#   ```sql                 statements, run by psql; "sql subscriber" on the subscriber, "sql standby" on the standby
#   ```sh                  a shell script; "sh key-server" where a key server can be reached
#   ```conf                lines for postgresql.conf, which are added before the server is restarted
#   ```text                right after one of these: what it prints, but for blanks; "…" stands for anything, in a line or for lines
#   ```… needs=NAME        only where that program or plugin is installed
#   ```… endless           one command that does not end by itself; it is ended when it has printed what is shown
#   ```… fails             ends with an error
#   ```… not-run: REASON   not run
#   ```… example           not to be run: no command, or output of nothing on the page
package Pages;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Utils;

our @EXPORT = qw(page_of same_output);

my %languages = map { $_ => 1 } qw(sql sh conf);

# The blocks of a page, in order: { line, language, code, where, needs, endless, fails, output, problem }. Those that are not to be
# run are left out; what is neither has a `problem`.
sub page_of
{
	my ($path) = @_;
	my @lines = split /\n/, slurp_file($path);
	my (@blocks, $block, $runnable, $last_end);
	for my $n (1 .. @lines)
	{
		my $line = $lines[ $n - 1 ];
		if ($block && $line =~ /^\s*```\s*$/)
		{
			if ($block->{language} eq 'text' && !$block->{skip})
			{
				# what is shown belongs to the block before it
				if ($runnable && $last_end + 1 == $block->{line}) { $runnable->{output} = $block->{code}; }
				else { push @blocks, { %$block, problem => 'output of nothing; mark it as an example' }; }
			}
			elsif (!$block->{skip})
			{
				$block->{problem} = "neither run nor marked (see t/Pages.pm): $block->{info}" if !$languages{ $block->{language} };
				push @blocks, $block;
			}
			$runnable = $block->{skip} || $block->{language} eq 'text' ? undef : $block;
			($last_end, $block) = ($n, undef);
		}
		elsif ($block)
		{
			$block->{code} .= $line =~ s/^ {0,$block->{indent}}//r . "\n";
		}
		elsif ($line =~ /^(\s*)```(.*)$/)
		{
			$block = { parse_info($2), info => $2, line => $n, indent => length $1, code => '' };
		}
		elsif ($line =~ /^( {4}|\t)/ && $n > 1 && $lines[ $n - 2 ] =~ /^\s*$/)
		{
			push @blocks, { line => $n, problem => 'a block of code that is indented, not fenced' };
		}
	}
	push @blocks, { line => $block->{line}, problem => 'a block without an end' } if $block;
	return @blocks;
}

sub parse_info
{
	my ($info) = @_;
	my ($language, @words) = split ' ', $info =~ s/\s*not-run: \S.*$/ skip/r;
	my %block = (language => $language // '', where => '', needs => undef);
	for (@words)
	{
		if    (/^(skip|example)$/)         { $block{skip} = 1; }
		elsif (/^(endless|fails)$/)        { $block{$1} = 1; }
		elsif (/^needs=(.+)$/)             { $block{needs} = $1; }
		elsif (/^(subscriber|standby|key-server)$/) { $block{where} = $1; }
		else                               { $block{problem} = "unknown word in the info string: $_"; }
	}
	return %block;
}

# Whether a program's output is what a page shows.
sub same_output
{
	my ($got, $shown) = @_;
	my $pattern = join '', map { pattern_of($_) } lines_of($shown);
	return join('', map { "$_\n" } lines_of($got)) =~ /\A$pattern\z/;
}

# Lines that are not empty, with single blanks and no frame of dashes.
sub lines_of { my ($text) = @_; return grep { $_ ne '' && !/^[-+]+$/ } map { s/\s+/ /gr =~ s/^ | $//gr } split /\n/, $text; }

sub pattern_of
{
	my ($line) = @_;
	return '(?s:.*)' if $line eq '…';
	return join('.*', map { quotemeta } split /…/, $line, -1) . "\n";
}

1;
